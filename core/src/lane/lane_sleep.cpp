// How a lane waits: docs/arrival.md, "The receiver: the lane sleeps".
#include <emmintrin.h>

#include <verbatim/driver/deadline.hpp>

#include "../awaited/awaited.hpp"
#include "lane_impl.hpp"

namespace verbatim {
namespace {

using Rest = LaneMember::Rest;

// Rounds in which the answer to an arming is awaited before the lane sleeps on it.
constexpr unsigned kRoundsForAnswer = 64;
// The end of a connection is being awaited, which is a matter of time.
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
    if (rest == Rest::quiet) patience_.is_quiet();
    waits_.wake_after(seldom_.sleep(!pending_.empty() ? kEndLook
                                    : rest == Rest::restless || kept_.must_be_swept()
                                        ? patience_.next_look()
                                        : std::chrono::milliseconds(0)));
    polled_.note_all(counts_, queue_.users());
    telemetry_.sleeps(counts_);
    return inbox_.prepare_to_sleep();
}

// What woke the caller's loop is read first: else it would wake it again.
bool Lane::Impl::prepare_to_sleep() noexcept {
    if (in_handler_ || polled_.is_inherited()) return false;
    (void)take_sockets(0);
    return settle_down();
}

void Lane::Impl::pause(unsigned round, Deadline deadline) noexcept {
    if (polled_.is_inherited()) return;
    const bool is_news = patience_.is_news(counts_.events), spins = patience_.spins(round);
    const bool sleeps = !is_news && !spins && settle_down();
    if (Awaited::any() && (sleeps || round % Awaited::kPollsPerLook == 0)) {
        Awaited::look(sleeps, descriptor(), deadline);
        deadline = Deadline::after(std::chrono::seconds(0));
    }
    if (!sleeps) return _mm_pause();
    (void)take_sockets(milliseconds_until(deadline.when));
    // At once, whatever the caller does next: the peer of a software NIC waits for the immediate
    // that it sent to be taken.
    (void)poll();
}

}  // namespace verbatim
