// The words of arrival (docs/arrival.md, "Words"). All have 8 bytes, are aligned, and begin at 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim {

// The kinds of things that wake a receiver; each has a word of `posted`.
enum class Thing : std::uint8_t {
    record,  // the position behind the last record
    credit,  // the position that the last credit brought which went alone
};
inline constexpr std::size_t kThings = 2;

// How a receiver wants to be told of things: the upper bits of `armed`, above the generation.
namespace armed {
inline constexpr std::uint64_t kNote = std::uint64_t{1} << 63;    // by a note with each thing
inline constexpr std::uint64_t kSilent = std::uint64_t{1} << 62;  // not at all: it polls
constexpr std::uint64_t generation(std::uint64_t word) noexcept {
    return word & ~(kNote | kSilent);
}
}  // namespace armed

// A line of the sender's memory. Owner: the sender; the receiver reads it by RDMA.
struct alignas(64) PostedWords {
    std::array<std::uint64_t, kThings> positions{};
};
// A line of the receiver's memory, where that read ends. Owner: its device.
using PostedCopy = PostedWords;

// Lines of each side's memory that the peer writes. Owner: the peer, by RDMA writes of 8 bytes.
struct PeerWords {
    alignas(64) std::uint64_t credit = 0;  // how far the peer has consumed this side's records
    alignas(64) std::uint64_t armed = 0;   // the generation that the peer has issued last, and how
};

inline std::uint64_t load_word(const std::uint64_t& word) noexcept {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

}  // namespace verbatim
