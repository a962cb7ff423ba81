// Small files of /proc and /sys.
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace cli {

// The first line; empty where there is none.
inline std::string line_of(const std::filesystem::path& file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

// The number that the first line begins with.
inline std::optional<std::int64_t> number_of(const std::filesystem::path& file) {
    const std::string line = line_of(file);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

}  // namespace cli
