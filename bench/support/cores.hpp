// A core: pinning to it, and the rate of its time stamp counter.
#pragma once

#include <cstdint>

namespace verbatim::bench {

// Throws std::runtime_error if this process may not use the core.
void pin_to(unsigned core);

// Measured once a process, for 20 ms.
double ticks_per_microsecond();

// The ticks between two readings in a row, as a median: no shorter time is seen.
std::uint64_t ticks_between_readings();

}  // namespace verbatim::bench
