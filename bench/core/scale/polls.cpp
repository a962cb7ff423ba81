// A poll of a lane with one busy connection and many idle ones.
#include <algorithm>
#include <limits>

#include "../../post/stepped.hpp"
#include "../workloads.hpp"
#include "many.hpp"

namespace verbatim::bench {
namespace {

constexpr std::size_t kPollsTogether = 32;  // between two readings of the counter
constexpr std::size_t kMostReadings = 1 << 16;
constexpr unsigned kCounts = 8;              // of instructions: one may meet a look at the clock
constexpr std::uint64_t kMostRounds = 2000;  // messages that keep the connection busy

// Messages over the first connection; returns the median of one way, in microseconds.
double keep_busy(Side& side, Many& many) {
    std::uint64_t number = 0;
    const auto bytes = std::as_bytes(std::span(&number, 1));
    const std::span<std::uint64_t> samples =
        side.first() ? side.samples().first(kMostRounds) : std::span<std::uint64_t>{};
    for (std::uint64_t i = 0; i < kMostRounds; ++i) {
        const std::uint64_t began = __rdtsc();
        if (side.first()) many.send(0, bytes);
        number = many.receive();
        if (side.first())
            samples[i] = __rdtsc() - began;
        else
            many.send(0, bytes);
    }
    if (!side.first()) return 0;
    std::ranges::nth_element(samples, samples.begin() + kMostRounds / 2);
    return static_cast<double>(samples[kMostRounds / 2]) / 2 / ticks_per_microsecond();
}

// The median of means, in nanoseconds.
double time_of_poll(Side& side, Many& many) {
    const std::span<std::uint64_t> samples = side.samples().first(kMostReadings);
    const std::uint64_t limit = __rdtsc() + side.budget_ticks();
    std::size_t count = 0;
    do {
        const std::uint64_t began = __rdtsc();
        for (std::size_t i = 0; i < kPollsTogether; ++i) many.poll();
        samples[count] = __rdtsc() - began;
    } while (++count < kMostReadings && __rdtsc() < limit);
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(samples.begin(), middle, samples.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<double>(*middle) / kPollsTogether / ticks_per_microsecond() * 1000;
}

double instructions_of_poll(Many& many) {
    std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
    for (unsigned i = 0; i < kCounts; ++i)
        fewest = std::min(fewest, Stepped::count([&] { many.poll(); }));
    return static_cast<double>(fewest);
}

void idle(Side& side, const Case& of) {
    Many many(side);
    many.add(of.connections);
    std::ranges::fill(side.samples(), 0);
    many.settle();
    const double one_way = keep_busy(side, many);
    if (side.first()) {
        side.report_amount(0, time_of_poll(side, many));
        side.report_amount(1, instructions_of_poll(many));
        side.report_amount(2, one_way);
        many.check();
    }
    many.meet();
}

}  // namespace

void add_polls(Subjects& all) {
    add(all, "verbatim.poll", idle, {&kIdle0, &kIdle15, &kIdle100, &kIdle1k, &kIdle10k});
}

}  // namespace verbatim::bench
