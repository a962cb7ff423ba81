// Contents of messages. The first word is the message's number, or kStop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace verbatim::bench {

inline constexpr std::uint64_t kStop = ~std::uint64_t{0};

// Libraries hand out memory of any alignment.
using Word [[gnu::aligned(1), gnu::may_alias]] = std::uint64_t;

inline Word* words(std::byte* at) { return reinterpret_cast<Word*>(at); }
inline const Word* words(const std::byte* at) { return reinterpret_cast<const Word*>(at); }

[[noreturn]] inline void refuse_data() { throw std::runtime_error("other data arrived"); }

// Writes every word afresh.
inline void write_all(std::byte* to, std::size_t bytes, std::uint64_t number) {
    words(to)[0] = number;
    for (std::size_t i = 1; i < bytes / 8; ++i) words(to)[i] = number + i;
}

// Reads every word; the sum must be that of write_all. Returns the number.
inline std::uint64_t read_all(const std::byte* from, std::size_t bytes) {
    const std::uint64_t number = words(from)[0], count = bytes / 8;
    if (count == 1) return number;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += words(from)[i];
    if (sum != count * number + count * (count - 1) / 2) refuse_data();
    return number;
}

// Writes the first and the last word only.
inline void stamp(std::byte* to, std::size_t bytes, std::uint64_t number) {
    words(to)[0] = number;
    words(to)[bytes / 8 - 1] = number;
}

inline std::uint64_t read_stamp(const std::byte* from, std::size_t bytes) {
    const std::uint64_t number = words(from)[0];
    if (words(from)[bytes / 8 - 1] != number) refuse_data();
    return number;
}

}  // namespace verbatim::bench
