// How a lane waits: docs/arrival.md, "The receiver: the lane sleeps".
#include <immintrin.h>

#include <algorithm>
#include <utility>

#include <verbatim/driver/deadline.hpp>

#include "lane_impl.hpp"

namespace verbatim {
namespace {

using Rest = LaneMember::Rest;

constexpr unsigned kRoundsPerClock = 16;
// A peer's answer to an arming takes one round of its device: a card's in microseconds. The peer of
// a software NIC answers when its program polls, which may be much later; until then its memory is
// looked at by time. The first look comes soon, the following ones later and later.
constexpr unsigned kRoundsForAnswer = 64;
constexpr std::chrono::milliseconds kFirstLook{1}, kLastLook{16};
// The end of a connection is being awaited: that, too, is a matter of time.
constexpr std::chrono::milliseconds kEndLook{5};

}  // namespace

// True: the lane may sleep now, and the wait set will wake it.
bool Lane::Impl::settle_down() noexcept {
    if (poll() != 0) return false;
    Rest rest = polled_.arm_all();
    for (unsigned round = 0; rest == Rest::restless && round < kRoundsForAnswer; ++round) {
        if (poll() != 0) return false;
        rest = polled_.arm_all();
    }
    if (rest == Rest::none || !queue_.arm() || poll() != 0) return false;
    look_after_ = rest == Rest::quiet ? kFirstLook : std::min(look_after_ * 2, kLastLook);
    waits_.wake_after(!ending_.empty()         ? kEndLook
                      : rest == Rest::restless ? look_after_
                                               : std::chrono::milliseconds(0));
    return inbox_.prepare_to_sleep();
}

// What woke the caller's loop is read first: else it would wake it again.
bool Lane::Impl::prepare_to_sleep() noexcept {
    if (in_handler_) return false;
    (void)take_sockets(0);
    return settle_down();
}

// Reads the clock seldom: between, it says what it said last.
bool Lane::Impl::must_spin(unsigned round) noexcept {
    if (config_.mode != LaneMode::adaptive) return config_.mode == LaneMode::busy;
    if (round == 0) {
        wait_began_ = Clock::now();
        spins_ = true;
    } else if (round % kRoundsPerClock == 0 || !spins_) {
        spins_ = Clock::now() - wait_began_ < config_.spin;
    }
    return spins_;
}

void Lane::Impl::pause(unsigned round, Deadline deadline) noexcept {
    const bool is_news = std::exchange(events_at_pause_, events_) != events_;
    const bool spins = must_spin(round);
    if (is_news || spins || !settle_down()) return _mm_pause();
    (void)take_sockets(milliseconds_until(deadline.when));
    // At once, whatever the caller does next: the peer of a software NIC waits for the immediate
    // that it sent to be taken.
    (void)poll();
}

}  // namespace verbatim
