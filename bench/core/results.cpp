#include "results.hpp"

#include <algorithm>

namespace verbatim::bench {
namespace {

template <double Figures::*member>
double value_of(const Figures& of) {
    return of.*member;
}
template <std::size_t index>
double amount_of(const Figures& of) {
    return of.amounts[index];
}

constexpr std::array<Measure, 6> times(std::string_view first) {
    return {{{first, value_of<&Figures::p50>, false},
             {"fine_us", value_of<&Figures::fine>, false},
             {"p99_us", value_of<&Figures::p99>, false},
             {"p99.9_us", value_of<&Figures::p99_9>, false},
             {"p99.99_us", value_of<&Figures::p99_99>, false},
             {"max_us", value_of<&Figures::max>, false}}};
}
constexpr std::array<Measure, 1> rate(std::string_view name) {
    return {{{name, value_of<&Figures::per_second>, true}}};
}
constexpr std::array<Measure, 6> kTimes = times("us_one_way"), kWakes = times("us");
constexpr std::array<Measure, 1> kMessages = rate("msgs_per_s"), kBytes = rate("bytes_per_s"),
                                 kConnections = rate("connections_per_s");
constexpr std::array<Measure, 3> kPolls = {{{"ns", amount_of<0>, false},
                                            {"instructions", amount_of<1>, false},
                                            {"us_busy_one_way", amount_of<2>, false}}};
constexpr std::array<Measure, 6> kFootprints = {{{"kib", amount_of<0>, false},
                                                 {"kib_files", amount_of<1>, false},
                                                 {"kib_tables", amount_of<2>, false},
                                                 {"kib_slab", amount_of<3>, false},
                                                 {"descriptors", amount_of<4>, false},
                                                 {"mappings", amount_of<5>, false}}};
constexpr std::array<Measure, 1> kIdleTime = {{{"cpu_percent", amount_of<0>, false}}};

// Of one pass: less is better. Empty if it failed.
std::optional<double> cost(const Row& row, std::size_t pass) {
    if (pass >= row.passes.size() || !row.passes[pass].error.empty()) return std::nullopt;
    const Figures& of = row.passes[pass];
    if (of.per_second > 0) return 1 / of.per_second;
    return of.amounts[0] > 0 ? of.amounts[0] : of.fine;
}

}  // namespace

std::span<const Measure> measures(const Case& of) {
    switch (of.kind) {
        case Kind::latency:
            return kTimes;
        case Kind::wake:
            return kWakes;
        case Kind::message_rate:
            return kMessages;
        case Kind::poll:
            return kPolls;
        case Kind::footprint:
            return kFootprints;
        case Kind::setup:
            return kConnections;
        case Kind::idle:
            return kIdleTime;
        case Kind::byte_rate:
            break;
    }
    return kBytes;
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<Summary> summarize(const Row& row, const Measure& measure) {
    Summary summary;
    for (const Figures& pass : row.passes)
        if (pass.error.empty()) summary.values.push_back(measure.value(pass));
    if (summary.values.empty()) return std::nullopt;
    summary.median = median(summary.values);
    summary.best = measure.more_is_better ? std::ranges::max(summary.values)
                                          : std::ranges::min(summary.values);
    return summary;
}

std::optional<double> times_slower(const Row& row, const std::vector<const Row*>& others) {
    std::vector<double> ratios;
    for (std::size_t pass = 0; pass < row.passes.size(); ++pass) {
        std::optional<double> best;
        for (const Row* other : others)
            if (const auto theirs = cost(*other, pass); theirs && (!best || *theirs < *best))
                best = theirs;
        if (const auto own = cost(row, pass); own && best) ratios.push_back(*own / *best);
    }
    if (ratios.empty()) return std::nullopt;
    return median(ratios);
}

std::vector<const Row*> beside(std::span<const Row> rows, const Row& row, std::string_view prefix) {
    std::vector<const Row*> found;
    for (const Row& other : rows)
        if (other.subject.of == row.subject.of && other.subject.name.starts_with(prefix))
            found.push_back(&other);
    return found;
}

std::string failure(const Row& row) {
    const auto failed = [](const Figures& pass) { return !pass.error.empty(); };
    const auto first = std::ranges::find_if(row.passes, failed);
    if (first == row.passes.end()) return {};
    return std::to_string(std::ranges::count_if(row.passes, failed)) + " of " +
           std::to_string(row.passes.size()) + " passes: " + first->error;
}

}  // namespace verbatim::bench
