// Executes the queues of a program that does not poll: one that sleeps until an event comes, or
// that writes its work requests past libibverbs. Spins never, because a program that polls needs
// the core. Where doorbells can be trapped it sleeps until a peer or a doorbell calls, unless
// something waits for a time; elsewhere it naps, longer the less there is to do, and is woken by
// peers that have work. Threads: any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../../softnic/host/bell.hpp"
#include "../../softnic/host/descriptor.hpp"
#include "../../softnic/rings/progress_list.hpp"
#include "../objects/objects.hpp"
#include "doorbell_traps.hpp"

namespace verbatim::uverbs {

class EngineThread {
  public:
    // `may_trap`: doorbells, where that is possible.
    explicit EngineThread(bool may_trap);
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
    // An event may be due CompletionNotifier::kPatience from now. Any thread.
    void expect_event() noexcept {
        if (!expects_event_.load(std::memory_order_relaxed) && !expects_event_.exchange(true))
            bell_.ring();
    }
    // A thread of the program has posted by libibverbs. What several count at once may be lost.
    void count_post() noexcept {
        posts_.store(posts_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    // A thread of the program has polled.
    void count_poll() noexcept { polls_.fetch_add(1, std::memory_order_relaxed); }
    // A thread of the program is about to ring a doorbell, and will execute by itself what that
    // stands for.
    void expect_doorbell() noexcept {
        if (traps_.are_set()) [[unlikely]]
            spare_caller();
    }
    bool may_trap() const noexcept { return may_trap_; }
    // The program has mapped register pages here. Called again: nothing.
    void add_registers(std::uintptr_t start, std::size_t bytes) noexcept {
        traps_.add(start, bytes);
    }
    void forgo_traps(const std::string& why) noexcept { traps_.forgo(why); }
    // The program may write to them by itself from now on.
    void distrust() noexcept { direct_.store(true); }

  private:
    using Nap = std::chrono::nanoseconds;

    static void* entry(void* self);
    void run();
    using Clock = std::chrono::steady_clock;
    void look_round() noexcept;
    void read_doorbells() noexcept;
    std::uint64_t completions(bool with_events) noexcept;
    void raise_events() noexcept;
    void choose_nap() noexcept;
    Nap until_events(Nap nap) const noexcept;
    bool must_return() const noexcept;
    void choose_sleep(bool moved) noexcept;
    void prepare_sleep() noexcept;
    void spare_caller() noexcept;
    bool trusts(Clock::time_point now) const noexcept;
    static void trapped(void* self) noexcept;
    static bool watch(void* self) noexcept;
    void serve_trap() noexcept;
    bool serve_watch() noexcept;
    bool find_requests() noexcept;
    void set_again() noexcept;

    softnic::Bell bell_;
    const bool may_trap_;
    std::atomic<bool> direct_{false};
    std::atomic<Clock::duration> trusted_until_{};  // the program's calls announce its doorbells
    softnic::ProgressList queue_pairs_;
    std::atomic<std::uint32_t> polls_{0}, posts_{0};
    std::atomic<bool> expects_event_{false};  // told to a thread that may sleep for ever

    std::mutex rounds_;  // one thread at a time looks round; guards what follows
    std::uint32_t polls_seen_ = 0, posts_seen_ = 0;
    bool made_completions_ = false;  // since the last nap
    std::uint64_t event_completions_seen_ = 0;
    std::uint32_t requests_found_ = 0;  // in the last round: blocks that nobody had executed
    Clock::time_point direct_until_;    // so long the program counts as one that posts by itself
    Nap timed_nap_;                     // the next one, if there is something to come back for
    Clock::time_point events_due_ = Clock::time_point::max();  // when one may be
    bool polled_ = false;
    bool wants_traps_ = false;
    bool awaits_peers_ = false;    // who ring when they have answered
    bool finds_requests_ = false;  // that no trap told of
    bool opened_ = false;          // the register pages, since the last watch
    bool unread_ = true;  // doorbells that no trap stopped and no call announced may be there
    softnic::QueuePair::Return return_ = softnic::QueuePair::Return::never;

    std::atomic<Nap> nap_{Nap(0)};
    std::atomic<bool> stop_{false};

    std::mutex mutex_;  // guards what follows
    std::vector<CompletionQueue*> queues_;
    std::optional<pthread_t> thread_;
    std::uint64_t generation_ = softnic::fork_generation();
    DoorbellTraps traps_;  // last: its thread uses the others
};

}  // namespace verbatim::uverbs
