// Rounds and naps.
#include "engine_thread.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "../../softnic/host/own_threads.hpp"
#include "prompt_thread.hpp"

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
// Receives may be posted past libibverbs, which no trap notices, to a queue pair that failed, and
// come back at leisure.
constexpr std::chrono::microseconds kCarefulNap = 50ms;
// A program that rings by calls pays for one trap in this time, some microseconds.
constexpr std::chrono::microseconds kTrust = 100ms;
// After a trap the register pages stay open for so long, and on while requests are found.
constexpr std::chrono::microseconds kOpen = 10us;

}  // namespace

EngineThread::EngineThread(bool may_trap)
    : bell_(softnic::SharedMemory::create("verbatim-bell", softnic::Bell::kBytes, true)),
      may_trap_(may_trap),
      timed_nap_(kShortestNap),
      nap_(kShortestNap),
      traps_({trapped, watch, this}) {}

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
    make_prompt();
    static_cast<EngineThread*>(self)->run();
    return nullptr;
}

void EngineThread::run() {
    while (!stop_.load()) {
        bool polled = false;
        {
            const std::lock_guard lock(rounds_);
            look_round();
            choose_nap();
            polled = polled_;
            if (polled) wants_traps_ = false;
        }
        // A program that polls finds by itself what peers have for it: they are not to call.
        if (polled) {
            traps_.lift();
            const softnic::AtRest rest;
            std::this_thread::sleep_for(nap_.load());
            continue;
        }
        bell_.lie_down();
        prepare_sleep();
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

// What came before the traps were set, and before peers could see that this thread sleeps, is found
// here.
void EngineThread::prepare_sleep() noexcept {
    const std::lock_guard lock(rounds_);
    const auto now = Clock::now();
    const bool trusted = trusts(now);
    wants_traps_ = !trusted && traps_.work();
    unread_ |= !traps_.are_set();
    // A program that posts a lot is not stopped each time: its peers' answers wake this thread.
    if (wants_traps_ && !traps_.are_set() && finds_requests_ && awaits_peers_)
        opened_ = true, traps_.watch();
    else if (wants_traps_)
        wants_traps_ = traps_.set();
    const std::uint32_t found_before = requests_found_;
    look_round();
    if (!traps_.work()) return;
    choose_sleep(requests_found_ != found_before);
    if (trusted && trusted_until_.load() > now.time_since_epoch())
        nap_ = std::min<Nap>(nap_, trusted_until_.load() - now.time_since_epoch());
}

void EngineThread::look_round() noexcept {
    using Return = softnic::QueuePair::Return;
    return_ = Return::never;
    awaits_peers_ = false;
    const std::uint64_t made = completions(false);
    read_doorbells();
    queue_pairs_.walk([this](softnic::QueuePair& pair) {
        const std::uint16_t before = pair.executed();
        pair.progress();
        requests_found_ += static_cast<std::uint16_t>(pair.executed() - before);
        return_ = std::max(return_, pair.must_return());
        awaits_peers_ |= pair.awaits_peer();
    });
    made_completions_ |= completions(false) != made;
    raise_events();
}

// Requests may have been posted past libibverbs, to queue pairs that nobody looks at. While the
// traps are set there are none, but for those before; while the program's calls announce its
// doorbells they wait until the traps are set.
void EngineThread::read_doorbells() noexcept {
    const bool trapped = traps_.are_set();
    if (!trapped && traps_.work() && trusts(Clock::now())) {
        unread_ = true;
        return;
    }
    if (trapped && !std::exchange(unread_, false)) return;
    unread_ |= !trapped;
    queue_pairs_.walk_all([](softnic::QueuePair& pair) {
        if (!pair.hot() && pair.unexecuted()) pair.heat();
    });
}

// A program may arm its queue without a call that we see.
void EngineThread::raise_events() noexcept {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    events_due_ = Clock::time_point::max();
    for (CompletionQueue* const queue : queues_)
        if (queue->channel() != nullptr)
            events_due_ = std::min(events_due_, queue->announce_late(now));
}

// Under rounds_, as what follows.
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
    finds_requests_ = std::exchange(requests_found_, 0) != 0;
    const bool busy = moved && !polled_;
    const bool looks_often = now < direct_until_ && !traps_.work();
    const Nap longest = looks_often ? Nap(kLongestDirectNap) : Nap(kLongestNap);
    timed_nap_ = busy ? kShortestNap : std::min(timed_nap_ * 2, longest);
    nap_ = until_events(timed_nap_);
}

// The nap, or a shorter one that ends when an event is due.
EngineThread::Nap EngineThread::until_events(Nap nap) const noexcept {
    if (events_due_ == Clock::time_point::max()) return nap;
    return std::min(nap, std::max<Nap>(events_due_ - Clock::now(), kShortestNap));
}

// Doorbells and peers call: only what waits for a time needs a nap. But a thread that naps is awake
// sooner than one that is woken, which is noticed by programs that wait for events, one after the
// other (ib_send_lat -e: 5 us to 10 us of 50 us); so it naps while something happens. A program
// that polls by itself needs the core more.
void EngineThread::choose_sleep(bool moved) noexcept {
    using Return = softnic::QueuePair::Return;
    if (moved && return_ == Return::soon) timed_nap_ = kShortestNap;
    const bool events_follow = !direct_.load() && timed_nap_ < kLongestNap;
    Nap nap = timed_nap_;
    if (return_ != Return::soon && !events_follow)
        nap = return_ == Return::late ? Nap(kCarefulNap) : softnic::Bell::kForEver;
    // Told once in this time, however often the program arms its queues.
    if (nap > CompletionNotifier::kPatience && expects_event_.exchange(false))
        nap = CompletionNotifier::kPatience;
    nap_ = until_events(nap);
}

bool EngineThread::trusts(Clock::time_point now) const noexcept {
    return !direct_.load() && now.time_since_epoch() < trusted_until_.load();
}

// A trap would stop the caller for longer than this takes. Its next calls find none for a while,
// unless the program also rings without calling.
void EngineThread::spare_caller() noexcept {
    trusted_until_.store(Clock::now().time_since_epoch() + kTrust);
    traps_.lift();
    bell_.ring();
}

void EngineThread::trapped(void* self) noexcept { static_cast<EngineThread*>(self)->serve_trap(); }

bool EngineThread::watch(void* self) noexcept {
    return static_cast<EngineThread*>(self)->serve_watch();
}

// On the traps' thread: as the engine thread would, which sleeps. Then the thread that was stopped
// needs time for the rest of its stores, each of which would stop it again. Where peers will answer
// the engine thread sets the traps again when they do; else they are set soon.
void EngineThread::serve_trap() noexcept {
    find_requests();
    {
        const std::lock_guard lock(rounds_);
        if (traps_.are_set()) return;
        if (wants_traps_ && awaits_peers_) return opened_ = true, traps_.watch();
    }
    do std::this_thread::sleep_for(kOpen);
    while (find_requests() && !traps_.are_set());
    const std::lock_guard lock(rounds_);
    set_again();
}

// On the traps' thread. Nobody may have answered. False: nothing has happened since it was called
// last.
bool EngineThread::serve_watch() noexcept {
    const std::lock_guard lock(rounds_);
    const bool opened = std::exchange(opened_, false);
    if (wants_traps_ && !traps_.are_set()) set_again();
    return opened;
}

// Under rounds_.
bool EngineThread::must_return() const noexcept {
    return return_ != softnic::QueuePair::Return::never || events_due_ != Clock::time_point::max();
}

// Under rounds_.
void EngineThread::set_again() noexcept {
    unread_ |= !traps_.are_set();
    if (!wants_traps_ || !traps_.set()) return bell_.ring();
    look_round();
    if (must_return()) bell_.ring();
}

// What the traps' thread finds says nothing of what can be found without traps.
bool EngineThread::find_requests() noexcept {
    const std::lock_guard lock(rounds_);
    const std::uint32_t before = requests_found_;
    look_round();
    if (must_return()) bell_.ring();
    return std::exchange(requests_found_, before) != before;
}

}  // namespace verbatim::uverbs
