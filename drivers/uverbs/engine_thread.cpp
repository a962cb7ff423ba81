// Rounds and naps.
#include "engine_thread.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "../softnic/own_threads.hpp"

namespace verbatim::uverbs {
namespace {

using namespace std::chrono_literals;

// A round takes a few microseconds with its two switches of context. Idle, that is 0.2 % of a core;
// while something happens it is the price of latency.
constexpr std::chrono::microseconds kShortestNap = 20us, kLongestNap = 4ms;
// A program that writes its requests past libibverbs, UCX for one, cannot call: what it posts waits
// for the end of a nap. So its naps stay short for a second after it last posted.
constexpr std::chrono::microseconds kLongestDirectNap = 160us;
constexpr std::chrono::seconds kDirectTime = 1s;
// More polls than this between two rounds: the program does by itself what a round would do.
constexpr std::uint32_t kBusyPolls = 16;

}  // namespace

EngineThread::EngineThread()
    : bell_(softnic::SharedMemory::create("verbatim-bell", softnic::Bell::kBytes, true)),
      nap_(kShortestNap) {}

EngineThread::~EngineThread() {
    if (generation_ != softnic::fork_generation()) return;  // the thread stayed in the parent
    stop_.store(true);
    bell_.ring();
    if (thread_) pthread_join(*thread_, nullptr);
}

void EngineThread::start() {
    const std::lock_guard lock(mutex_);
    if (thread_) return;
    pthread_t thread;
    const int refused = softnic::start_own_thread(thread, entry, this, softnic::Faults::taken);
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
    const softnic::OwnThread own;
    pthread_setname_np(pthread_self(), "verbatim-engine");
    // Naps end when they should; the default is 50 us later.
    prctl(PR_SET_TIMERSLACK, 1000);
    static_cast<EngineThread*>(self)->run();
    return nullptr;
}

void EngineThread::run() {
    while (!stop_.load()) {
        look_round();
        choose_nap();
        // A program that polls finds by itself what peers have for it: they are not to call.
        if (polled_) {
            const softnic::AtRest rest;
            std::this_thread::sleep_for(nap_.load());
            continue;
        }
        bell_.lie_down();
        look_round();
        const softnic::AtRest rest;
        if (!stop_.load()) bell_.sleep(nap_.load());
    }
}

// Of all queues, or of those that raise events.
std::uint64_t EngineThread::completions(bool with_events) noexcept {
    std::uint64_t sum = 0;
    const std::lock_guard lock(mutex_);
    for (CompletionQueue* const queue : queues_)
        if (!with_events || queue->channel() != nullptr) sum += queue->engine().ring().produced();
    return sum;
}

void EngineThread::look_round() noexcept {
    const std::uint64_t made = completions(false);
    queue_pairs_.walk([this](softnic::QueuePair& pair) {
        const std::uint16_t before = pair.executed();
        pair.progress();
        requests_found_ += static_cast<std::uint16_t>(pair.executed() - before);
    });
    made_completions_ |= completions(false) != made;
    // A program may arm its queue without a call that we see.
    const std::lock_guard lock(mutex_);
    const bool owed = std::exchange(owes_events_, false);
    if (owed)
        std::stable_sort(queues_.begin(), queues_.end(), [](const auto* a, const auto* b) {
            return a->owed() - 1 < b->owed() - 1;
        });  // 0: last
    // The program may fall asleep between two looks: later events of a channel wait for earlier
    // ones.
    const EventChannel* waiting = nullptr;
    for (CompletionQueue* const queue : queues_) {
        const bool turn = waiting == nullptr || queue->channel() != waiting;
        if (turn && queue->announce(CompletionQueue::Asks::program)) {
            if (queue->moderating()) owes_events_ = true;
            continue;
        }
        if (queue->channel() != nullptr) waiting = queue->channel();
        owes_events_ = true;
    }
}

// Who will look again within half a millisecond need not be called.
void EngineThread::hurry() const noexcept {
    constexpr std::chrono::microseconds kSoon = 500us;
    if (nap_.load(std::memory_order_relaxed) > kSoon) bell_.ring();
}

void EngineThread::choose_nap() noexcept {
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed);
    polled_ = polls - polls_seen_ > kBusyPolls;
    // What the program's own threads do when they post and poll needs nobody else, unless they wait
    // for events between that.
    const std::uint64_t events = completions(true);
    const bool moved = std::exchange(made_completions_, false) || requests_found_ != 0 ||
                       events != std::exchange(event_completions_seen_, events);
    const auto now = Clock::now();
    // One that posts by libibverbs executes what it posts, unless it is interrupted just then.
    // Where it waits for events, who is awake need not be called at a bad moment.
    const std::uint32_t posts = posts_.load(std::memory_order_relaxed);
    const bool posted = std::exchange(posts_seen_, posts) != posts;
    const bool direct = !polled_ && (!posted || event_completions_seen_ != 0);
    if (requests_found_ != 0 && direct) direct_until_ = now + kDirectTime;
    polls_seen_ = polls;
    requests_found_ = 0;
    const bool busy = (moved && !polled_) || owes_events_;
    const Nap longest = now < direct_until_ ? Nap(kLongestDirectNap) : Nap(kLongestNap);
    nap_ = busy ? kShortestNap : std::min(nap_.load() * 2, longest);
}

}  // namespace verbatim::uverbs
