// The memory of an end: a part of its own for each round and operation, so that nothing is written
// twice, and what the peer is to find there.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::interop {

// A round is these operations, in this order. The first four take no result.
enum class Operation : std::uint8_t {
    send,
    send_immediate,
    write,
    write_immediate,
    read,
    compare_swap,
    fetch_add,
};
inline constexpr std::uint32_t kOperations = 7, kReceives = 3;  // of a round
inline constexpr std::uint32_t kRounds = 100, kRoundsAtOnce = 4;

// Four packets. No operation is longer; the first one of its round starts at the first byte.
inline constexpr std::size_t kMostBytes = 4096, kApart = 8;
using Buffer = std::array<std::byte, kMostBytes>;

struct Round {
    std::array<std::byte, kMostBytes + kApart * kOperations> outgoing;  // sent, written, read
    std::array<Buffer, 2> messages, written;                            // by the peer
    Buffer fetched;                                                     // by the own read
    std::uint64_t swapped, added;  // by own atomic operations: the words before
};
struct Memory {
    std::uint64_t swap_word, sum_word;  // of the peer's atomic operations
    std::array<Round, kRounds> rounds;
};

constexpr std::size_t offset_of(Operation operation) {
    return kApart * static_cast<std::size_t>(operation);
}
// From 1 byte to four packets.
constexpr std::uint32_t bytes_of(Operation operation, std::uint32_t round) {
    return 1 + (round * 7919 + static_cast<std::uint32_t>(operation) * 1237) % kMostBytes;
}

// What the end with this number sends in the round.
inline std::byte pattern_at(std::size_t at, std::uint32_t round, std::uint32_t end) {
    return static_cast<std::byte>(at * 7 + at / 251 + round * 13 + end * 101 + 1);
}
inline void fill(Memory& memory, std::uint32_t end) {
    for (std::uint32_t round = 0; round != kRounds; ++round)
        for (std::size_t at = 0; at != memory.rounds[round].outgoing.size(); ++at)
            memory.rounds[round].outgoing[at] = pattern_at(at, round, end);
}
// The operation of that end came to this place, and nothing behind it.
inline bool has_arrived(const Buffer& buffer, Operation operation, std::uint32_t round,
                        std::uint32_t end) {
    const std::size_t bytes = bytes_of(operation, round);
    for (std::size_t i = 0; i != bytes; ++i)
        if (buffer[i] != pattern_at(offset_of(operation) + i, round, end)) return false;
    const auto rest = std::span(buffer).subspan(bytes);
    return std::all_of(rest.begin(), rest.end(),
                       [](std::byte byte) { return byte == std::byte{}; });
}

}  // namespace verbatim::interop
