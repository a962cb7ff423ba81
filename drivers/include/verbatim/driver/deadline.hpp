// Deadlines in the form that poll(2) takes. Threads: any.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace verbatim {

// Milliseconds until `deadline`, rounded up, so that nobody spins at its end; 0 once it has passed;
// -1, which is for ever, for the last time point there is.
inline int milliseconds_until(std::chrono::steady_clock::time_point deadline) noexcept {
    using std::chrono::steady_clock;
    if (deadline == steady_clock::time_point::max()) return -1;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace verbatim
