// Figures of all passes, and what is derived from them. Ratios compare runs of one pass only.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run.hpp"
#include "subject.hpp"

namespace verbatim::bench {

struct Row {
    Subject subject;
    std::vector<Figures> passes;
};

struct Measure {
    std::string_view name;
    double (*value)(const Figures&);
    bool more_is_better;
};
std::span<const Measure> measures(const Case& of);

struct Summary {
    double median = 0, best = 0;
    std::vector<double> values;  // of the passes that did not fail
};
// Empty if every pass failed.
std::optional<Summary> summarize(const Row& row, const Measure& measure);

double median(std::vector<double> values);

// How many times slower the row is than the fastest of the others of its pass, as a median over
// the passes. Times are those of Figures::fine. Empty without a pass that has both.
std::optional<double> times_slower(const Row& row, const std::vector<const Row*>& others);

// Rows of the same case whose subject begins with `prefix`.
std::vector<const Row*> beside(std::span<const Row> rows, const Row& row, std::string_view prefix);

// What went wrong, empty if nothing did: the first error and how many passes failed.
std::string failure(const Row& row);

}  // namespace verbatim::bench
