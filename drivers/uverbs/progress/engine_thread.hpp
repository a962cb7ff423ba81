// The thread that executes the queues of a program that does not poll: one that sleeps until an
// event comes, or that writes its work requests past libibverbs. Spins never, because a program
// that polls needs the core. Where doorbells can be trapped it sleeps until a peer or a doorbell
// calls, unless something waits for a time; elsewhere it naps, longer the less there is to do, and
// is woken by peers that have work. Threads: any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "../../softnic/host/bell.hpp"
#include "../../softnic/rings/progress_list.hpp"
#include "../objects/objects.hpp"
#include "doorbell_watch.hpp"
#include "engine_rounds.hpp"
#include "event_queues.hpp"
#include "nap_chooser.hpp"

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
    softnic::ProgressList& queue_pairs() noexcept { return rounds_.queue_pairs(); }
    // Throws std::system_error if there can be no thread. Called again: nothing.
    void start();
    // Completion queues with events.
    void add(CompletionQueue& queue) { queues_.add(queue); }
    // Afterwards the thread does not touch it any more.
    void remove(const CompletionQueue& queue) { queues_.remove(queue); }
    // An event may be due CompletionNotifier::kPatience from now. Any thread.
    void expect_event() noexcept {
        if (queues_.expect()) bell_.ring();
    }
    // A thread of the program has posted by libibverbs. What several count at once may be lost.
    void count_post() noexcept {
        posts_.store(posts_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    // A thread of the program has polled.
    void count_poll() noexcept { polls_.fetch_add(1, std::memory_order_relaxed); }
    // A thread of the program is about to ring a doorbell, and will execute by itself what that
    // stands for.
    void expect_doorbell() noexcept { doorbells_.expect_doorbell(); }
    bool may_trap() const noexcept { return may_trap_; }
    // The program has mapped register pages here. Called again: nothing.
    void add_registers(std::uintptr_t start, std::size_t bytes) noexcept {
        doorbells_.add_registers(start, bytes);
    }
    void forgo_traps(const std::string& why) noexcept { doorbells_.forgo_traps(why); }
    // The program may write to them by itself from now on.
    void distrust() noexcept { doorbells_.distrust(); }

  private:
    using Nap = NapChooser::Nap;

    static void* entry(void* self);
    void run();
    Nap look_round() noexcept;
    Nap prepare_sleep(Nap nap) noexcept;

    softnic::Bell bell_;
    const bool may_trap_;
    std::atomic<std::uint32_t> polls_{0}, posts_{0};
    std::atomic<bool> stop_{false};
    EventQueues queues_;
    EngineRounds rounds_;
    NapChooser naps_;
    std::mutex mutex_;  // guards what follows
    std::optional<pthread_t> thread_;
    const std::uint64_t generation_ = softnic::fork_generation();
    DoorbellWatch doorbells_;  // last: its thread uses the others
};

}  // namespace verbatim::uverbs
