// Executes the queues of a program that does not poll: one that sleeps until an event comes, or
// that writes its work requests past libibverbs. Spins never, because a program that polls needs
// the core; sleeps longer the less there is to do, and is woken by peers that have work. Threads:
// any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "../softnic/bell.hpp"
#include "../softnic/descriptor.hpp"
#include "../softnic/progress_list.hpp"
#include "objects.hpp"

namespace verbatim::uverbs {

class EngineThread {
  public:
    EngineThread();
    ~EngineThread();
    EngineThread(const EngineThread&) = delete;
    EngineThread& operator=(const EngineThread&) = delete;

    // What peers ring when they have work.
    const softnic::Bell& bell() const noexcept { return bell_; }
    // The queue pairs that the thread executes.
    softnic::ProgressList& queue_pairs() noexcept { return queue_pairs_; }
    // Throws std::system_error if there can be no thread. Called again: nothing.
    void start();
    // Completion queues with events.
    void add(CompletionQueue& queue);
    // Afterwards the thread does not touch it any more.
    void remove(const CompletionQueue& queue);
    // There is an event to raise that nothing else will raise. Any thread.
    void hurry() const noexcept;
    // A thread of the program has posted by libibverbs. What several count at once may be lost.
    void count_post() noexcept {
        posts_.store(posts_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    // A thread of the program has polled.
    void count_poll() noexcept { polls_.fetch_add(1, std::memory_order_relaxed); }

  private:
    using Nap = std::chrono::microseconds;

    static void* entry(void* self);
    void run();
    using Clock = std::chrono::steady_clock;
    void look_round() noexcept;
    std::uint64_t completions(bool with_events) noexcept;
    void choose_nap() noexcept;

    softnic::Bell bell_;
    softnic::ProgressList queue_pairs_;
    std::atomic<std::uint32_t> polls_{0};
    std::uint32_t polls_seen_ = 0;
    std::atomic<std::uint32_t> posts_{0};
    std::uint32_t posts_seen_ = 0;
    bool made_completions_ = false;  // since the last nap
    std::uint64_t event_completions_seen_ = 0;
    std::uint32_t requests_found_ = 0;  // in the last round: blocks that nobody had executed
    Clock::time_point direct_until_;    // so long the program counts as one that posts by itself
    std::atomic<Nap> nap_{Nap(0)};
    bool owes_events_ = false;  // which are to come soon
    bool polled_ = false;
    std::atomic<bool> stop_{false};

    std::mutex mutex_;  // guards what follows
    std::vector<CompletionQueue*> queues_;
    std::optional<pthread_t> thread_;
    std::uint64_t generation_ = softnic::fork_generation();
};

}  // namespace verbatim::uverbs
