// The end of a connection as this side has noticed it: why, and how much of what the peer sent
// before may still be under way. Threads: the connection's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <verbatim/core/deadline.hpp>

#include "hello.hpp"

namespace verbatim {

class PeerEnd {
  public:
    // Ok: not noticed.
    Errc why() const noexcept { return why_; }
    bool noticed() const noexcept { return why_ != Errc::ok; }
    // The peer took its leave.
    bool is_bye() const noexcept { return bye_.has_value(); }

    void note(Errc why) noexcept {
        why_ = why;
        at_ = Clock::now();
    }
    void note(const Bye& bye) noexcept {
        bye_ = bye;
        note(Errc::peer_lost);
    }

    // The peer took its leave, and everything before that has been `consumed`.
    bool is_whole(std::uint64_t consumed) const noexcept {
        return bye_ && bye_->sent_position == consumed;
    }
    // The peer took its leave with every message of this side taken: they end at `messages`.
    bool took_all(std::uint64_t messages, std::uint64_t sent) const noexcept {
        return bye_ && bye_->taken_position >= messages && bye_->taken_position <= sent;
    }
    // How much of this side the peer had taken when it took its leave; 0: it did not say.
    std::uint64_t taken() const noexcept { return bye_ ? bye_->taken_position : 0; }
    // The bye went over TCP and may have overtaken data of the queue pair, but not by long; a peer
    // that lies is not believed for longer either.
    bool may_be_early(std::uint64_t consumed) const noexcept {
        return bye_ && bye_->sent_position > consumed && Clock::now() - at_ < kDataBehindBye;
    }

  private:
    static constexpr std::chrono::seconds kDataBehindBye{5};

    Errc why_ = Errc::ok;
    std::optional<Bye> bye_;
    Clock::time_point at_{};
};

}  // namespace verbatim
