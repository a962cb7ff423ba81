// Rounds and naps.
#include "engine_thread.hpp"

#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <system_error>

namespace verbatim::uverbs {
namespace {

using namespace std::chrono_literals;

// A round takes a few microseconds with its two switches of context. Idle, that is 0.2 % of a core;
// while something happens it is the price of latency.
constexpr std::chrono::microseconds kShortestNap = 20us, kLongestNap = 4ms;
// More polls than this between two rounds: the program does by itself what a round would do.
constexpr std::uint32_t kBusyPolls = 16;

}  // namespace

EngineThread::~EngineThread() {
    if (generation_ != softnic::fork_generation()) return;  // the thread stayed in the parent
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        changed_.notify_all();
    }
    if (thread_) pthread_join(*thread_, nullptr);
}

void EngineThread::start() {
    const std::lock_guard lock(mutex_);
    if (thread_) return;
    // The thread inherits this mask: no signal of the program is ever handled on it.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int refused = pthread_create(&thread, nullptr, entry, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused != 0) throw std::system_error(refused, std::generic_category());
    thread_ = thread;
}

void EngineThread::add(CompletionQueue& queue) {
    const std::lock_guard lock(mutex_);
    queues_.push_back(&queue);
}

void EngineThread::remove(const CompletionQueue& queue) {
    const std::lock_guard lock(mutex_);
    std::erase(queues_, &queue);
}

void* EngineThread::entry(void* self) {
    pthread_setname_np(pthread_self(), "verbatim-engine");
    // Naps end when they should; the default is 50 us later.
    prctl(PR_SET_TIMERSLACK, 1000);
    static_cast<EngineThread*>(self)->run();
    return nullptr;
}

void EngineThread::run() {
    Nap nap = kShortestNap;
    std::unique_lock lock(mutex_);
    while (!stop_) {
        lock.unlock();
        queue_pairs_.progress();
        lock.lock();
        // A program may arm its queue without a call that we see.
        for (CompletionQueue* const queue : queues_) queue->announce();
        nap = next_nap(nap);
        if (!stop_) changed_.wait_for(lock, nap);
    }
}

// Under mutex_.
EngineThread::Nap EngineThread::next_nap(Nap last) noexcept {
    std::uint64_t completions = 0;
    for (CompletionQueue* const queue : queues_) completions += queue->engine().ring().produced();
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed);
    const bool polled = polls - polls_seen_ > kBusyPolls;
    const bool moved = completions != completions_seen_;
    polls_seen_ = polls;
    completions_seen_ = completions;
    if (moved && !polled) return kShortestNap;
    return std::min(last * 2, kLongestNap);
}

}  // namespace verbatim::uverbs
