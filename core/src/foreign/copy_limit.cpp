// Measuring copies beside registrations.
#include "copy_limit.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>

namespace verbatim {
namespace {

constexpr std::size_t kTries = 9;

// The median time of a few calls; one before them is not counted.
template <class Call>
std::chrono::nanoseconds median_time(Call call) {
    using Clock = std::chrono::steady_clock;
    call();
    std::array<std::chrono::nanoseconds, kTries> times;
    for (auto& time : times) {
        const auto began = Clock::now();
        call();
        time = Clock::now() - began;
    }
    std::ranges::nth_element(times, times.begin() + kTries / 2);
    return times[kTries / 2];
}

}  // namespace

std::size_t measure_copy_limit(const std::function<void(void*, std::size_t)>& use) {
    const auto from = std::make_unique<std::byte[]>(kMostCopyLimit);
    const auto into = std::make_unique<std::byte[]>(kMostCopyLimit);
    std::size_t bytes = kLeastCopyLimit;
    for (; bytes < kMostCopyLimit; bytes *= 2) {
        const auto copying = median_time([&] {
            std::memcpy(into.get(), from.get(), bytes);
            asm volatile("" : : "r"(into.get()) : "memory");  // it is made
        });
        if (median_time([&] { use(from.get(), bytes); }) <= copying) break;
    }
    return bytes;
}

}  // namespace verbatim
