// The floor: one cache line from core to core and back, no library. Two ways to do it, a line for
// each direction or one for both; which is faster depends on the machine, so the lower one counts.
#include <x86gprintrin.h>

#include <algorithm>
#include <array>

#include "peers.hpp"
#include "subjects.hpp"

namespace verbatim::bench {
namespace {

constexpr std::uint64_t kStretch = 1024;  // round trips before the other way's turn
constexpr std::uint64_t kWarmUp = 4 * kStretch;

bool one_line(std::uint64_t round) { return round / kStretch % 2 != 0; }

// Odd values are pings, even ones pongs, so that one word can carry both.
void answer(SharedPage& page) {
    for (std::uint64_t round = 0;; ++round) {
        std::atomic<std::uint64_t>& in = one_line(round) ? page.both : page.ping;
        std::atomic<std::uint64_t>& out = one_line(round) ? page.both : page.pong;
        std::uint64_t seen = 0;
        do seen = in.load(std::memory_order_acquire);
        while (seen != 2 * round + 1 && seen != kStop);
        if (seen == kStop) return;
        out.store(2 * round + 2, std::memory_order_release);
    }
}

std::uint64_t round_trip(SharedPage& page, std::uint64_t round) {
    std::atomic<std::uint64_t>& out = one_line(round) ? page.both : page.ping;
    std::atomic<std::uint64_t>& in = one_line(round) ? page.both : page.pong;
    const std::uint64_t began = __rdtsc();
    out.store(2 * round + 1, std::memory_order_release);
    while (in.load(std::memory_order_acquire) != 2 * round + 2) {
    }
    return __rdtsc() - began;
}

}  // namespace

void cache_line(benchmark::State& state) {
    SecondProcess second(answer);
    SharedPage& page = second.page();
    const auto expected = static_cast<std::size_t>(state.max_iterations);
    std::array<RoundTrips, 2> trips{RoundTrips(expected), RoundTrips(expected)};
    std::uint64_t round = 0;
    while (round < kWarmUp) round_trip(page, round), ++round;
    for (auto _ : state) {
        trips[one_line(round)].add(round_trip(page, round));
        ++round;
    }
    page.ping = page.both = kStop;
    second.wait();
    double best = trips[0].one_way_microseconds();
    if (!trips[1].empty()) best = std::min(best, trips[1].one_way_microseconds());
    state.counters["us_one_way"] = best;
}

}  // namespace verbatim::bench
