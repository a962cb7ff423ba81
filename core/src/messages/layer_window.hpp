// A layer window bounds what one side has sent and the other has not taken. The receiver says how
// much it has taken in all, by messages of kind kTaken on the layer's channel; one that finds no
// room is offered again by polls of the lane. Threads: the lane's. Data path.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include <verbatim/core/layers/repeated_step.hpp>

#include "../connection/waiting.hpp"

namespace verbatim {

class LayerWindow {
  public:
    static constexpr std::uint8_t kTaken = 15;  // a kind of message

    LayerWindow(Connection& connection, std::uint8_t channel, std::uint64_t window) noexcept
        : impl_(LayerAccess::impl_of(connection)),
          channel_(channel),
          window_(window),
          telling_(OneSided(connection), Tell{this}) {}

    // -- What this side sends --
    std::uint64_t room() const noexcept { return window_ - (sent_ - acknowledged_); }
    void note_sent(std::uint64_t cost) noexcept { sent_ += cost; }
    // A message of kind kTaken. False: it lies.
    bool take(std::span<const std::byte> message) noexcept {
        std::uint64_t total = 0;
        if (message.size() != sizeof total) return false;
        std::memcpy(&total, message.data(), sizeof total);
        if (total < acknowledged_ || total > sent_) return false;
        acknowledged_ = total;
        return true;
    }

    // -- What the peer sends --
    // False: the peer has sent more than it may.
    bool note_arrived(std::uint64_t cost) noexcept {
        arrived_ += cost;
        return arrived_ - told_ <= window_;
    }
    // The program has taken this. Tells the peer, a quarter of the window at a time.
    void note_taken(std::uint64_t cost) noexcept {
        taken_ += cost;
        if (taken_ - told_ >= window_ / 4) telling_.begin();
    }

  private:
    struct Tell {
        LayerWindow* window;
        Errc operator()() const noexcept { return window->tell(); }
    };
    Errc tell() noexcept {
        const std::uint64_t total = taken_;
        const Errc error = impl_.try_send(
            {.channel = channel_, .kind = kTaken, .head = std::as_bytes(std::span(&total, 1))});
        if (error == Errc::ok) told_ = total;
        return error;
    }

    Connection::Impl& impl_;
    std::uint8_t channel_;
    std::uint64_t window_;
    std::uint64_t sent_ = 0, acknowledged_ = 0;
    std::uint64_t arrived_ = 0, taken_ = 0, told_ = 0;
    RepeatedStep<Tell> telling_;
};

}  // namespace verbatim
