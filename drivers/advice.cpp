// The nearest word.
#include <verbatim/driver/advice.hpp>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace verbatim {
namespace {

// Edits (insert, delete, replace) between two words.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
        }
    }
    return row[b.size()];
}

}  // namespace

std::string advice(std::string_view word, std::span<const std::string_view> known) {
    const auto nearest = std::min_element(known.begin(), known.end(), [&](auto a, auto b) {
        return distance(word, a) < distance(word, b);
    });
    if (nearest != known.end() &&
        distance(word, *nearest) <= std::max<std::size_t>(2, word.size() / 3))
        return fmt::format("did you mean {}?", *nearest);
    return fmt::format("known are: {}", fmt::join(known, ", "));
}

}  // namespace verbatim
