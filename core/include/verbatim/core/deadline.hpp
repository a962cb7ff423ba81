// Deadlines of blocking calls.
#pragma once

#include <chrono>

namespace verbatim {

using Clock = std::chrono::steady_clock;

// A point in time at which a blocking call gives up with Errc::timeout.
struct Deadline {
    Clock::time_point when = Clock::time_point::max();
    static Deadline never() noexcept { return {}; }
    static Deadline after(Clock::duration d) noexcept { return {Clock::now() + d}; }
    bool passed() const noexcept {
        return when != Clock::time_point::max() && Clock::now() >= when;
    }
    // The same in the nth round of a wait. Reading the clock costs as much as a poll: this reads it
    // seldom while the caller spins, always once it sleeps.
    bool passed(unsigned round) const noexcept {
        return (round % 16 == 0 || round > 256) && passed();
    }
};

}  // namespace verbatim
