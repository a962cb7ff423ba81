// A wait set is the descriptors that may wake a lane: the channel of its completion queue, the side
// channels of its connections, and a timer. Threads: the lane's; the descriptor itself may be
// waited for by any.
#pragma once

#include <cstddef>
#include <optional>

#include <verbatim/core/deadline.hpp>
#include <verbatim/driver/descriptor.hpp>

namespace verbatim {

class WaitSet {
  public:
    // Throws Error(device_error) where the process may have no more descriptors.
    WaitSet();

    // `key`: what look() reports; null is the lane's own. Throws Error(out_of_memory).
    void add(int file, void* key);
    void remove(int file) noexcept;

    // Waits for at most so long. Calls `ready` with the key of each descriptor that can be read; up
    // to a batch of them.
    template <class Ready>
    std::size_t wait(int milliseconds, Ready&& ready) noexcept {
        Batch batch;
        const std::size_t count = take(milliseconds, batch);
        for (std::size_t i = 0; i < count; ++i) ready(batch.keys[i]);
        return count;
    }
    int file() const noexcept { return epoll_.get(); }
    // Ends a wait, here or elsewhere, after so long or earlier: the lane's own key is reported.
    // 0: no more.
    void wake_after(std::chrono::milliseconds time) noexcept;

  private:
    struct Batch {
        static constexpr std::size_t kMost = 16;
        void* keys[kMost];
    };
    std::size_t take(int milliseconds, Batch& batch) noexcept;

    Descriptor epoll_;
    Descriptor timer_;
    std::optional<Clock::time_point> fires_at_;
};

}  // namespace verbatim
