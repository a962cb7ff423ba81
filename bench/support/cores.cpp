#include "cores.hpp"

#include <sched.h>
#include <x86gprintrin.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>

namespace verbatim::bench {
namespace {

using Steady = std::chrono::steady_clock;

double measure_rate() {
    const auto began = Steady::now();
    const std::uint64_t first = __rdtsc();
    while (Steady::now() - began < std::chrono::milliseconds(20)) {
    }
    const std::uint64_t last = __rdtsc();
    const std::chrono::duration<double, std::micro> took = Steady::now() - began;
    return static_cast<double>(last - first) / took.count();
}

}  // namespace

double ticks_per_microsecond() {
    static const double rate = measure_rate();
    return rate;
}

std::uint64_t ticks_between_readings() {
    std::array<std::uint64_t, 1001> readings;
    for (std::uint64_t& reading : readings) reading = __rdtsc();
    for (std::size_t i = 0; i + 1 < readings.size(); ++i)
        readings[i] = readings[i + 1] - readings[i];
    const auto middle = readings.begin() + 500;
    std::nth_element(readings.begin(), middle, readings.end() - 1);
    return *middle;
}

void pin_to(unsigned core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        throw std::runtime_error("this benchmark needs cores 0 and 1 and may not use one of them");
}

}  // namespace verbatim::bench
