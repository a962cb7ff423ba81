// Quantities are sizes ("64M") and durations ("20us") as configuration files have them.
#pragma once

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace verbatim {

// A whole number, not negative, with one of these units behind it; in units of 1.
template <std::size_t N>
std::optional<std::int64_t> parse_quantity(
    std::string_view text, const std::array<std::pair<std::string_view, std::int64_t>, N>& units) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0) return std::nullopt;
    const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
    for (const auto& [name, factor] : units)
        if (unit == name && number <= std::numeric_limits<std::int64_t>::max() / factor)
            return number * factor;
    return std::nullopt;
}

// Bytes; units are powers of 1024.
inline std::optional<std::int64_t> parse_size(std::string_view text) {
    constexpr std::int64_t kKi = 1024;
    constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> kUnits{
        {{"", 1},
         {"K", kKi},
         {"M", kKi * kKi},
         {"G", kKi * kKi * kKi},
         {"T", kKi * kKi * kKi * kKi}}};
    return parse_quantity(text, kUnits);
}

// A unit must be named.
inline std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> kUnits{
        {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};
    const auto count = parse_quantity(text, kUnits);
    return count ? std::optional(std::chrono::nanoseconds(*count)) : std::nullopt;
}

}  // namespace verbatim
