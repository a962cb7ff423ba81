// A reservation takes entries of a lane's completion queue for a queue pair that is being made, and
// gives them back unless it was made. Its end may come in any thread.
#pragma once

#include <cstdint>
#include <utility>

#include <verbatim/core/config.hpp>

#include "lane_queue.hpp"

namespace verbatim {

// Entries of a lane's completion queue that a connection takes. They are reserved in the lane's
// thread before its queue pair is made.
constexpr std::uint32_t completions_of(const Config& config) noexcept {
    return config.ring.send_blocks + QueueUser::kReceives;
}

class Reservation {
  public:
    // In the lane's thread, as only there the queue may be lengthened. Throws Error(out_of_memory).
    Reservation(LaneQueue& queue, const Config& config)
        : queue_(&queue), entries_(completions_of(config)) {
        queue.reserve(entries_);
    }
    ~Reservation() {
        if (queue_ != nullptr) queue_->give_back(entries_);
    }
    Reservation(Reservation&& other) noexcept
        : queue_(std::exchange(other.queue_, nullptr)), entries_(other.entries_) {}
    Reservation& operator=(Reservation&&) = delete;
    void keep() noexcept { queue_ = nullptr; }

  private:
    LaneQueue* queue_;
    std::uint32_t entries_;
};

}  // namespace verbatim
