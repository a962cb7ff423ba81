// The completion queues that the engine thread knows: it counts their completions, and raises
// events that nobody else notices to be due. Threads: any, unless a function says otherwise.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "../objects/objects.hpp"

namespace verbatim::uverbs {

class EventQueues {
  public:
    using Clock = std::chrono::steady_clock;

    void add(CompletionQueue& queue);
    // Afterwards the queue is not touched any more.
    void remove(const CompletionQueue& queue);
    // Completions so far of all queues, or of those that raise events.
    std::uint64_t completions(bool with_events) noexcept;
    // Raises the events that are due. Under the rounds' lock.
    void raise() noexcept;
    // When an event may be due, as the last raise() found; max(): none is expected. Under the
    // rounds' lock.
    Clock::time_point due() const noexcept { return due_; }

    // An event may be due CompletionNotifier::kPatience from now. True: nobody had said so yet.
    bool expect() noexcept {
        return !expected_.load(std::memory_order_relaxed) && !expected_.exchange(true);
    }
    // Whether somebody has said so since the last call.
    bool take_expected() noexcept { return expected_.exchange(false); }

  private:
    std::atomic<bool> expected_{false};
    Clock::time_point due_ = Clock::time_point::max();
    std::mutex mutex_;  // guards what follows
    std::vector<CompletionQueue*> queues_;
};

}  // namespace verbatim::uverbs
