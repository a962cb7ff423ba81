// When traps are set, and what follows a trap.
#include "doorbell_watch.hpp"

#include <mutex>
#include <thread>
#include <utility>

namespace verbatim::uverbs {
namespace {

using namespace std::chrono_literals;

// A program that rings by calls pays for one trap in this time, some microseconds.
constexpr std::chrono::microseconds kTrust = 100ms;
// After a trap the register pages stay open for so long, and on while requests are found.
constexpr std::chrono::microseconds kOpen = 10us;

}  // namespace

Doorbells DoorbellWatch::state() const noexcept {
    if (traps_.are_set()) return Doorbells::trapped;
    return traps_.work() && trusts(Clock::now()) ? Doorbells::announced : Doorbells::unwatched;
}

bool DoorbellWatch::trusts(Clock::time_point now) const noexcept {
    return !direct_.load() && now.time_since_epoch() < trusted_until_.load();
}

std::chrono::nanoseconds DoorbellWatch::trusted_for(Clock::time_point now) const noexcept {
    const Clock::duration rest = trusted_until_.load() - now.time_since_epoch();
    return rest > Clock::duration(0) ? rest : softnic::Bell::kForEver;
}

// A program that posts a lot is not stopped each time: its peers' answers wake the engine thread.
void DoorbellWatch::prepare_sleep(bool trusted, bool finds_requests) noexcept {
    wants_traps_ = !trusted && traps_.work();
    if (!traps_.are_set()) rounds_.expect_unread();
    if (wants_traps_ && !traps_.are_set() && finds_requests && rounds_.awaits_peers())
        opened_ = true, traps_.watch();
    else if (wants_traps_)
        wants_traps_ = traps_.set();
}

// A trap would stop the caller for longer than this takes. Its next calls find none for a while,
// unless the program also rings without calling.
void DoorbellWatch::spare_caller() noexcept {
    trusted_until_.store(Clock::now().time_since_epoch() + kTrust);
    traps_.lift();
    bell_.ring();
}

void DoorbellWatch::trapped(void* self) noexcept {
    static_cast<DoorbellWatch*>(self)->serve_trap();
}

bool DoorbellWatch::watch(void* self) noexcept {
    return static_cast<DoorbellWatch*>(self)->serve_watch();
}

// On the traps' thread: as the engine thread would, which sleeps. Then the thread that was stopped
// needs time for the rest of its stores, each of which would stop it again. Where peers will answer
// the engine thread sets the traps again when they do; else they are set soon.
void DoorbellWatch::serve_trap() noexcept {
    find_requests();
    {
        const std::lock_guard lock(rounds_);
        if (traps_.are_set()) return;
        if (wants_traps_ && rounds_.awaits_peers()) return opened_ = true, traps_.watch();
    }
    do std::this_thread::sleep_for(kOpen);
    while (find_requests() && !traps_.are_set());
    const std::lock_guard lock(rounds_);
    set_again();
}

// On the traps' thread. Nobody may have answered. False: nothing has happened since it was called
// last.
bool DoorbellWatch::serve_watch() noexcept {
    const std::lock_guard lock(rounds_);
    const bool opened = std::exchange(opened_, false);
    if (wants_traps_ && !traps_.are_set()) set_again();
    return opened;
}

// Under the rounds' lock.
void DoorbellWatch::set_again() noexcept {
    if (!traps_.are_set()) rounds_.expect_unread();
    if (!wants_traps_ || !traps_.set()) return bell_.ring();
    look_round();
    if (rounds_.must_return()) bell_.ring();
}

// What the traps' thread finds says nothing of what can be found without traps.
bool DoorbellWatch::find_requests() noexcept {
    const std::lock_guard lock(rounds_);
    const bool found = rounds_.look_aside(state());
    if (rounds_.must_return()) bell_.ring();
    return found;
}

}  // namespace verbatim::uverbs
