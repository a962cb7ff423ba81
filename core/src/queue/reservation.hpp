// A reservation takes entries of a lane's queue for one queue pair, and gives them back at its end:
// after the queue pair's. That may come in any thread. As many as the queue pair's requests, which
// all finish at once where it fails; a few where completions wait for room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <verbatim/core/config.hpp>

#include "lane_queue.hpp"

namespace verbatim {

class Reservation {
  public:
    // In the lane's thread, as only there the queue may grow. Throws Error(out_of_memory).
    Reservation(LaneQueue& queue, const Config& config)
        : entries_(QueueUser::kReceives + (queue.device_info().completions_wait
                                               ? std::min(kFew, config.ring.send_blocks)
                                               : config.ring.send_blocks)),
          completions_(&queue.reserve(entries_)) {}
    ~Reservation() {
        if (completions_ != nullptr) completions_->give_back(entries_);
    }
    Reservation(Reservation&& other) noexcept
        : entries_(other.entries_), completions_(std::exchange(other.completions_, nullptr)) {}
    Reservation& operator=(Reservation&& other) noexcept {
        std::swap(entries_, other.entries_);
        std::swap(completions_, other.completions_);
        return *this;
    }
    // Where the queue pair's requests finish.
    SharedCompletions& completions() const noexcept { return *completions_; }

  private:
    // Few requests are signaled (send_path.hpp), and polls are frequent.
    static constexpr std::uint32_t kFew = 14;

    std::uint32_t entries_;
    SharedCompletions* completions_;
};

}  // namespace verbatim
