// The small languages of values: sizes ("64M"), durations ("20us"), and ranges in words.
#include "config_values.hpp"

#include <array>
#include <bit>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <verbatim/driver/quantity.hpp>

namespace verbatim {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> kSizeUnits{
    {{"T", 1LL << 40}, {"G", 1LL << 30}, {"M", 1LL << 20}, {"K", 1LL << 10}}};

struct TimeUnit {
    std::string_view name, plural;
    nanoseconds length;
};
constexpr std::array<TimeUnit, 4> kTimeUnits{{{"s", "seconds", std::chrono::seconds(1)},
                                              {"ms", "milliseconds", std::chrono::milliseconds(1)},
                                              {"us", "microseconds", std::chrono::microseconds(1)},
                                              {"ns", "nanoseconds", nanoseconds(1)}}};

std::string shape_in_words(const ValueRange& range) {
    return range.shape == Shape::power_of_two ? ", a power of two" : "";
}

}  // namespace

bool ValueRange::admits(std::int64_t value) const {
    return value >= least && value <= most &&
           (shape == Shape::any || std::has_single_bit(static_cast<std::uint64_t>(value)));
}

std::string size_text(std::int64_t bytes, std::string_view quote) {
    for (const auto& [name, factor] : kSizeUnits)
        if (bytes > 0 && bytes % factor == 0)
            return fmt::format("{}{}{}{}", quote, bytes / factor, name, quote);
    return std::to_string(bytes);
}

std::string duration_text(nanoseconds time, nanoseconds unit) {
    for (const TimeUnit& one : kTimeUnits)
        if (time == nanoseconds(0) ? one.length == unit : time % one.length == nanoseconds(0))
            return fmt::format("{}{}", time / one.length, one.name);
    return fmt::format("{}ns", time.count());
}

std::string toml_text(std::string_view text) {
    std::ostringstream out;
    const toml::value<std::string> value{std::string(text)};
    // In double quotes, with escapes.
    out << toml::toml_formatter(value, toml::format_flags::allow_unicode_strings);
    return out.str();
}

std::optional<std::int64_t> size_of(const ConfigValue& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
    const auto* text = std::get_if<std::string>(&value);
    return text == nullptr ? std::nullopt : parse_size(*text);
}

std::optional<nanoseconds> duration_of(const ConfigValue& value) {
    const auto* text = std::get_if<std::string>(&value);
    return text == nullptr ? std::nullopt : parse_duration(*text);
}

std::string allowed_sizes(const ValueRange& range) {
    return fmt::format("a size from {} to {}{}", size_text(range.least, ""),
                       size_text(range.most, ""), shape_in_words(range));
}

std::string allowed_numbers(const ValueRange& range) {
    return fmt::format("a number from {} to {}{}", range.least, range.most, shape_in_words(range));
}

std::string allowed_durations(nanoseconds least, nanoseconds most, nanoseconds unit) {
    std::string_view units = kTimeUnits.back().plural;
    for (const TimeUnit& one : kTimeUnits)
        if (one.length == unit) units = one.plural;
    return fmt::format(R"(a duration from "{}" to "{}", whole {})", duration_text(least, unit),
                       duration_text(most, unit), units);
}

std::string allowed_words(const std::vector<std::string_view>& words) {
    std::string all;
    for (std::size_t i = 0; i < words.size(); ++i)
        all += fmt::format("{}\"{}\"",
                           i == 0                  ? ""
                           : i + 1 == words.size() ? " or "
                                                   : ", ",
                           words[i]);
    return all;
}

}  // namespace verbatim
