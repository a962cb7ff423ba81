// Lent answers tell the peer which of the messages that it lends were read. Threads: the lane's.
// Data path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/core/layers/repeated_step.hpp>

#include "../connection/waiting.hpp"
#include "lent_offer.hpp"

namespace verbatim {

class LentAnswers {
  public:
    LentAnswers(Connection& connection, std::uint8_t channel) noexcept
        : impl_(LayerAccess::impl_of(connection)),
          channel_(channel),
          telling_(OneSided(connection), Tell{this}) {}

    // There is room: a peer has no more open than that, until it was told.
    void add(std::uint64_t id) noexcept {
        ids_[count_++] = id;
        telling_.begin();
    }
    std::size_t waiting() const noexcept { return count_; }

  private:
    struct Tell {
        LentAnswers* answers;
        Errc operator()() const noexcept { return answers->tell(); }
    };
    Errc tell() noexcept {
        const auto ids = std::as_bytes(std::span(ids_).first(count_));
        const Errc error =
            impl_.try_send({.channel = channel_, .kind = LentOffer::kRead, .body = ids});
        if (error == Errc::ok) count_ = 0;
        return error;
    }

    Connection::Impl& impl_;
    std::uint8_t channel_;
    std::array<std::uint64_t, LentOffer::kMostOpen> ids_{};
    std::size_t count_ = 0;
    RepeatedStep<Tell> telling_;
};

}  // namespace verbatim
