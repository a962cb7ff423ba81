// GIDs as the kernel writes them. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace verbatim {

// "fe80:0000:0000:0000:0000:0000:0000:0001": eight groups of four hexadecimal digits.
inline std::optional<std::array<std::uint8_t, 16>> parse_gid(const std::string& text) {
    std::array<std::uint8_t, 16> bytes;
    unsigned group;
    for (std::size_t i = 0; i < 8; ++i) {
        if (text.size() < i * 5 + 4 || std::sscanf(text.c_str() + i * 5, "%4x", &group) != 1)
            return std::nullopt;
        bytes[2 * i] = static_cast<std::uint8_t>(group >> 8);
        bytes[2 * i + 1] = static_cast<std::uint8_t>(group);
    }
    return bytes;
}

}  // namespace verbatim
