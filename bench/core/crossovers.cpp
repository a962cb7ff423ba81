// Where two modes of writing foreign memory change places.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "report.hpp"

namespace verbatim::bench {
namespace {

std::optional<double> time_of(std::span<const Row> rows, const Case& of, std::string_view mode) {
    for (const Row& row : rows)
        if (row.subject.of == &of && row.subject.name == mode)
            if (const auto summary = summarize(row, measures(of).front())) return summary->median;
    return std::nullopt;
}

// The least measured size from which on `mode` is never slower than copying; 0: there is none.
std::optional<std::size_t> crossover(std::span<const Row> rows, std::string_view mode) {
    std::optional<std::size_t> from;
    for (const Case& of : kForeign) {
        const auto copied = time_of(rows, of, kModeCopy), other = time_of(rows, of, mode);
        if (!copied || !other) return std::nullopt;
        if (*other > *copied)
            from.reset();
        else if (!from)
            from = of.bytes;
    }
    return from.value_or(0);
}

}  // namespace

std::string crossovers(std::span<const Row> rows) {
    std::string text;
    for (const std::string_view mode : {kModeOnDemand, kModeRegistered}) {
        const auto from = crossover(rows, mode);
        if (!from) continue;
        text += *from == 0
                    ? fmt::format("crossover   {}: copying is faster at all sizes\n", mode)
                    : fmt::format("crossover   {}: not slower than copying from {} bytes on\n",
                                  mode, *from);
    }
    return text;
}

}  // namespace verbatim::bench
