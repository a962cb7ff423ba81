// Returned credits tell the peer how far this side has consumed its records. They ride in the
// records of the other direction; where there are none, an 8-byte write brings them. At the
// beginning of the ring one goes for every half of a short lap, so that the peer may end its lap
// early (send_positions.hpp). It is announced once half of the ring is consumed: only then may the
// peer wait for it. Threads: the lane's. Data path: no allocation, lock, system call or exception.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../arrival/arrival_sender.hpp"
#include "ring_format.hpp"
#include "send_counts.hpp"

namespace verbatim {

class ReturnedCredits {
  public:
    // `bytes`: of the ring that is consumed; `word`: in the peer's memory.
    ReturnedCredits(SendPath& path, ArrivalSender& arrival, std::size_t bytes,
                    mlx5::RemoteMemory word)
        : path_(path),
          arrival_(arrival),
          bytes_(bytes),
          at_first_(ring::has_short_laps(bytes) ? ring::kShortLap / 2 : bytes / 2),
          address_(word.address),
          write_{mlx5::PreparedWrite8(path.queue(),
                                      {.opcode = mlx5::Opcode::write, .remote_key = word.key})} {
        note(0);
    }

    bool is_due(std::uint64_t consumed) const noexcept { return consumed >= due_; }
    // It was in a record that was posted and announced.
    void went_along(std::uint64_t consumed) noexcept {
        announced_ = consumed;
        note(consumed);
    }
    // Sends it alone. would_block: the send queue is full.
    [[gnu::noinline]] Errc send(std::uint64_t consumed, SendCounts& counts) noexcept {
        path_.make_room();
        const Errc error = path_.post(write_, address_, consumed);
        if (error != Errc::ok) return error;
        ++counts.credits;
        const bool tells = consumed - announced_ >= bytes_ / 2;
        if (tells) announced_ = consumed;
        note(consumed);
        return tells ? arrival_.announce(Thing::credit, consumed) : Errc::ok;
    }
    // The position that the peer was told last.
    std::uint64_t last() const noexcept { return last_; }

  private:
    // Where a peer that keeps up ends its laps, with room for messages of 64 KiB.
    static constexpr std::size_t kBeginning = 8 * ring::kShortLap;

    void note(std::uint64_t told) noexcept {
        last_ = told;
        const bool is_first = (told & (bytes_ - 1)) < kBeginning;
        due_ = std::min(told + (is_first ? at_first_ : bytes_ / 2), announced_ + bytes_ / 2);
    }

    SendPath& path_;
    ArrivalSender& arrival_;
    std::size_t bytes_;
    std::size_t at_first_;                    // a credit for so many bytes at the ring's beginning
    std::uint64_t last_ = 0, announced_ = 0;  // positions
    std::uint64_t due_ = 0;                   // the next credit goes from here on
    std::uint64_t address_;
    PreparedPost<mlx5::PreparedWrite8> write_;
};

}  // namespace verbatim
