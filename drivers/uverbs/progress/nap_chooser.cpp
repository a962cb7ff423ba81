// Lengths of naps.
#include "nap_chooser.hpp"

#include <algorithm>
#include <utility>

#include "../../softnic/host/bell.hpp"

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

}  // namespace

NapChooser::NapChooser(EngineRounds& rounds, EventQueues& queues) noexcept
    : rounds_(rounds), queues_(queues), timed_nap_(kShortestNap) {}

// What the program's own threads do when they post and poll needs nobody else, unless they wait for
// events between that.
bool NapChooser::has_moved() noexcept {
    const std::uint64_t events = queues_.completions(true);
    return rounds_.take_made_completions() || rounds_.requests_found() != 0 ||
           events != std::exchange(event_completions_seen_, events);
}

NapChooser::Nap NapChooser::choose(std::uint32_t polls, std::uint32_t posts,
                                   bool may_be_called) noexcept {
    program_polls_ = polls - std::exchange(polls_seen_, polls) > kBusyPolls;
    const bool moved = has_moved();
    const auto now = Clock::now();
    // One that posts by libibverbs executes what it posts, unless it is interrupted just then.
    // Where it waits for events, who is awake need not be called at a bad moment.
    const bool posted = std::exchange(posts_seen_, posts) != posts;
    const bool direct = !program_polls_ && (!posted || event_completions_seen_ != 0);
    finds_requests_ = rounds_.take_requests_found() != 0;
    if (finds_requests_ && direct) direct_until_ = now + kDirectTime;
    const bool busy = moved && !program_polls_;
    const bool looks_often = now < direct_until_ && !may_be_called;
    const Nap longest = looks_often ? Nap(kLongestDirectNap) : Nap(kLongestNap);
    timed_nap_ = busy ? kShortestNap : std::min(timed_nap_ * 2, longest);
    return until_events(timed_nap_);
}

// The nap, or a shorter one that ends when an event is due.
NapChooser::Nap NapChooser::until_events(Nap nap) const noexcept {
    if (queues_.due() == Clock::time_point::max()) return nap;
    return std::min(nap, std::max<Nap>(queues_.due() - Clock::now(), kShortestNap));
}

// Doorbells and peers call: only what waits for a time needs a nap. But a thread that naps is awake
// sooner than one that is woken, which is noticed by programs that wait for events, one after the
// other (ib_send_lat -e: 5 us to 10 us of 50 us); so it naps while something happens. A program
// that polls by itself needs the core more.
NapChooser::Nap NapChooser::choose_sleep(bool moved, bool direct) noexcept {
    using Return = EngineRounds::Return;
    const Return when = rounds_.when_to_return();
    if (moved && when == Return::soon) timed_nap_ = kShortestNap;
    const bool events_follow = !direct && timed_nap_ < kLongestNap;
    Nap nap = timed_nap_;
    if (when != Return::soon && !events_follow)
        nap = when == Return::late ? Nap(kCarefulNap) : softnic::Bell::kForEver;
    // Told once in this time, however often the program arms its queues.
    if (nap > CompletionNotifier::kPatience && queues_.take_expected())
        nap = CompletionNotifier::kPatience;
    return until_events(nap);
}

}  // namespace verbatim::uverbs
