// An arrival sender tells a sleeping receiver of what was posted: docs/arrival.md, "The sender, for
// each post". Threads: the lane's. Data path.
#pragma once

#include <cstdint>

#include "../queue/send_path.hpp"
#include "arrival_words.hpp"

namespace verbatim {

class ArrivalSender {
  public:
    // `posted`: null where both sides always poll; then announce() does nothing. `armed`: written
    // by the peer.
    ArrivalSender(SendPath& path, PostedWords* posted, const std::uint64_t& armed) noexcept
        : path_(path), posted_(posted), armed_(armed) {}

    // After a thing was posted, up to `position` of its kind. Errors: protocol_error, for good;
    // those of a failed queue pair.
    [[gnu::always_inline]] Errc announce(Thing thing, std::uint64_t position) noexcept {
        if (posted_ == nullptr) return Errc::ok;
        // Store and full fence: else the old generation might be read below while the receiver
        // reads the old position.
        __atomic_exchange_n(&posted_->positions[static_cast<std::size_t>(thing)], position,
                            __ATOMIC_SEQ_CST);
        const std::uint64_t generation = load_word(armed_);
        return generation == notified_ ? Errc::ok : notify(generation);
    }
    // Another queue pair, which knows no generation; `posted`: as above.
    void restart(PostedWords* posted) noexcept {
        posted_ = posted;
        notified_ = 0;
    }
    // Immediates that were posted, for counters.
    std::uint64_t notified() const noexcept { return notified_; }

  private:
    [[gnu::noinline]] Errc notify(std::uint64_t generation) noexcept;

    SendPath& path_;
    PostedWords* posted_;
    const std::uint64_t& armed_;
    std::uint64_t notified_ = 0;
};

}  // namespace verbatim
