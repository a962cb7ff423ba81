// The bytes of a message ring; docs/wire.md, "Message ring", is the text.
//
// Positions are absolute: bytes since the ring was made, 64 bits, never wrapping; a record starts
// at a multiple of 32 of them and lies whole within one lap. It is
//     word 0    length (24 bits) | channel (8) | kind (4) | frame (4) | credit (24)
//     payload   padded to 8 bytes
//     trailer   tag(position), 64 bits
// and is written by one RDMA write, whose last 8 bytes become visible last. The tag comes from a
// key that the receiver drew and gave to its peer alone: bytes of an earlier lap carry another
// position's tag and payload cannot know it, so consumed space need not be zeroed (after FaRM,
// which zeroes it; Naos §3.2).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbatim::ring {

static_assert(std::endian::native == std::endian::little, "the ring's words are little endian");

inline constexpr std::size_t kAlignment = 32;  // of records; credits count in it
inline constexpr std::size_t kWordBytes = 8;
inline constexpr std::size_t kOverhead = 2 * kWordBytes;
inline constexpr std::size_t kMinRing = 4096, kMaxRing = std::size_t{64} << 20;
inline constexpr unsigned kKinds = 16;        // of messages, within their channel
inline constexpr std::size_t kMostKeys = 64;  // of a notice

// What a record is.
enum class Frame : std::uint8_t {
    message = 0,
    // Skips `length` bytes: the rest of the lap or of a claim, or what the receiver has yet to
    // read. The trailer lies right behind word 0; carries no credit.
    pad = 1,
    // Holds small messages: for each a word 0, which carries no credit, and its payload, padded to
    // 8 bytes. One trailer makes them complete together.
    batch = 2,
    // A part of a message that is longer than a record (fragments.hpp).
    fragment = 3,
    // The keys of grants that have ended, 32 bits each, kMostKeys at most.
    ended_keys = 4,
};

struct Word0 {
    std::uint32_t length = 0;
    std::uint8_t channel = 0;
    std::uint8_t kind = 0;
    Frame frame = Frame::message;
    // The sender's own consumed position of the other direction, in 32-byte steps.
    std::uint32_t credit = 0;

    static constexpr Word0 from(std::uint64_t raw) noexcept {
        return {static_cast<std::uint32_t>(raw) & 0xff'ffff, static_cast<std::uint8_t>(raw >> 24),
                static_cast<std::uint8_t>(raw >> 32 & 0xf), static_cast<Frame>(raw >> 36 & 0xf),
                static_cast<std::uint32_t>(raw >> 40)};
    }
    constexpr std::uint64_t raw() const noexcept {
        return length | std::uint64_t{channel} << 24 | std::uint64_t{kind} << 32 |
               static_cast<std::uint64_t>(frame) << 36 | std::uint64_t{credit} << 40;
    }
};

constexpr std::size_t round_up(std::size_t bytes, std::size_t step) noexcept {
    return (bytes + step - 1) & ~(step - 1);
}
// Bytes that are written for a payload, and bytes of the ring they take.
constexpr std::size_t record_bytes(std::size_t payload) noexcept {
    return round_up(payload, kWordBytes) + kOverhead;
}
constexpr std::size_t slot_bytes(std::size_t payload) noexcept {
    return round_up(record_bytes(payload), kAlignment);
}
// A quarter of the ring: then a record and the pad before it fit into what an idle receiver has
// given back.
constexpr std::size_t max_payload(std::size_t ring_bytes) noexcept {
    return ring_bytes / 4 - kOverhead;
}
static_assert(max_payload(kMaxRing) < std::size_t{1} << 24);
// A slot of the largest ring may be one step longer than what its length can say.
inline constexpr std::size_t kLongestPad = (std::size_t{1} << 24) - kAlignment;

// Laps may end early, where a pad can skip nearly all of the ring, and a short lap is little of it.
inline constexpr std::size_t kShortLap = std::size_t{16} << 10;
constexpr bool has_short_laps(std::size_t ring_bytes) noexcept {
    return ring_bytes >= 8 * kShortLap && ring_bytes <= std::size_t{1} << 24;
}

constexpr bool valid_ring_bytes(std::uint64_t bytes) noexcept {
    return std::has_single_bit(bytes) && bytes >= kMinRing && bytes <= kMaxRing;
}

// One-to-one in the position for each key, so that no two positions of a ring share a tag.
constexpr std::uint64_t tag(std::uint64_t key, std::uint64_t position) noexcept {
    std::uint64_t x = position ^ key;
    x = (x ^ (x >> 32)) * 0xd6e8'feb8'6659'fd93u;
    x = (x ^ (x >> 32)) * 0xd6e8'feb8'6659'fd93u;
    return x ^ (x >> 32);
}

// A position as a credit says it, and how many bytes `credit` is beyond `known`: exact while the
// two are less than 256 MiB apart, negative for old news.
inline constexpr unsigned kCreditBits = 24;
constexpr std::uint32_t to_credit(std::uint64_t position) noexcept {
    return static_cast<std::uint32_t>(position / kAlignment) & ((1U << kCreditBits) - 1);
}
constexpr std::int64_t credit_gain(std::uint32_t credit, std::uint64_t known) noexcept {
    const std::uint32_t steps = credit - to_credit(known);
    constexpr unsigned kSpare = 32 - kCreditBits;
    return std::int64_t{static_cast<std::int32_t>(steps << kSpare) >> kSpare} *
           static_cast<std::int64_t>(kAlignment);
}

}  // namespace verbatim::ring
