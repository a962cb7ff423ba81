#include "run.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>
#include <numeric>
#include <vector>

#include "../support/cores.hpp"
#include "processes.hpp"

namespace verbatim::bench {
namespace {

constexpr std::chrono::seconds kGrace{20};  // for setting up, warming up and taking down
constexpr std::chrono::milliseconds kGraceOfConnection{10};

// The smallest sample that at least this share of all samples does not exceed.
double rank(std::span<const std::uint64_t> sorted, double share) {
    const auto count = static_cast<double>(sorted.size());
    const auto place = static_cast<std::size_t>(std::ceil(share * count)) - 1;
    return static_cast<double>(sorted[place]) / 2 / ticks_per_microsecond();
}

constexpr std::size_t kTogether = 32;
constexpr double kFineMicroseconds = 1;

// Longer batches would hold an interruption each. The samples are in the order of their taking.
double median_of_means(std::span<const std::uint64_t> samples) {
    std::vector<std::uint64_t> sums;
    for (; samples.size() >= kTogether; samples = samples.subspan(kTogether)) {
        const auto some = samples.first(kTogether);
        sums.push_back(std::accumulate(some.begin(), some.end(), std::uint64_t{0}));
    }
    std::ranges::sort(sums);
    return rank(sums, 0.5) / kTogether;
}

}  // namespace

Runner::Runner(double microseconds)
    : microseconds_(microseconds), page_(::new (memory_.start()) MeetingPage) {
    (void)ticks_per_microsecond();  // both processes inherit it
}

Runner::~Runner() = default;

std::span<std::uint64_t> Runner::samples() const noexcept {
    return {static_cast<std::uint64_t*>(sample_memory_.start()), kMaxSamples};
}

void Runner::run_side(const Subject& subject, unsigned index) {
    int status = 0;
    try {
        pin_to(index);
        Side side(*page_, index, index == 0 ? samples() : std::span<std::uint64_t>{},
                  microseconds_);
        subject.run(side, *subject.of);
    } catch (const std::exception& error) {
        std::snprintf(page_->error[index].data(), page_->error[index].size(), "%s", error.what());
        status = 1;
    }
    std::fflush(nullptr);
    _exit(status);
}

// What the sides themselves say went wrong.
std::string Runner::sayings() const {
    std::string text;
    for (const unsigned side : {0u, 1u})
        if (const char* error = page_->error[side].data(); *error != '\0')
            text += "; side " + std::to_string(side) + ": " + error;
    return text;
}

std::string Runner::run_processes(const Subject& subject) {
    page_ = ::new (memory_.start()) MeetingPage;
    for (int& bell : page_->bells) bell = eventfd(0, EFD_CLOEXEC);
    const auto budget = std::chrono::milliseconds(static_cast<int>(microseconds_ / 1000));
    const std::string wrong =
        ProcessPair([&](unsigned side) {
            run_side(subject, side);
        }).wait(kGrace + subject.of->connections * kGraceOfConnection + 2 * budget);
    for (const int bell : page_->bells) close(bell);
    return wrong.empty() ? wrong : wrong + sayings();
}

Figures Runner::of_latency() {
    const std::span<std::uint64_t> sorted = samples().first(page_->samples);
    if (sorted.empty()) return {.error = "no samples"};
    const double means = sorted.size() < kTogether ? 0 : median_of_means(sorted);
    std::ranges::sort(sorted);
    const double p50 = rank(sorted, 0.5);
    return {.error = {},
            .samples = sorted.size(),
            .p50 = p50,
            .p99 = rank(sorted, 0.99),
            .p99_9 = rank(sorted, 0.999),
            .p99_99 = rank(sorted, 0.9999),
            .max = rank(sorted, 1),
            .fine = means > 0 && p50 < kFineMicroseconds ? means : p50};
}

Figures Runner::of_rate(const Case& of) const {
    const double bytes = of.kind == Kind::byte_rate ? static_cast<double>(of.bytes) : 1;
    if (page_->per_second <= 0) return {.error = "no result"};
    return {.error = {}, .samples = 1, .per_second = page_->per_second * bytes};
}

// A case of many connections may report samples of its own beside them.
Figures Runner::of_amounts() const {
    if (page_->amounts[0] <= 0) return {.error = "no result"};
    return {.error = {}, .samples = 1, .amounts = page_->amounts};
}

Figures Runner::run(const Subject& subject) {
    if (std::string wrong = run_processes(subject); !wrong.empty()) return {.error = wrong};
    const Case& of = *subject.of;
    switch (of.kind) {
        case Kind::latency:
        case Kind::wake:
            return of_latency();
        case Kind::message_rate:
        case Kind::byte_rate:
        case Kind::setup:
            return of_rate(of);
        case Kind::poll:
        case Kind::footprint:
        case Kind::idle:
            break;
    }
    return of_amounts();
}

}  // namespace verbatim::bench
