// What sender and receiver of a graph say to each other: the payloads of the kinds of channel 240,
// described in docs/wire.md, "Graphs". Both sides have the same byte order (the hello sees to it);
// all counts, offsets and lengths of the graph are 64 bits wide. Received payloads are read through
// parse(), which copies and checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <verbatim/core/connection.hpp>

namespace verbatim::objects::wire {

inline constexpr std::uint8_t kChannel = kLayerChannels;

enum Kind : std::uint8_t {
    kOffer = 0,  // sender: a graph is to be sent; followed by kBytes with its layout, if announced
    kGrant = 1,  // receiver: memory for it (several messages if there are many extents)
    kRefusal = 2,  // receiver: not this graph, and why
    kBytes = 3,    // sender: the next bytes of layout, back-pointers and extensions, in that order
    kEnd = 4,      // sender: all is written
    kCancel = 5,   // sender: drop what you have of it
};

struct Offer {
    std::uint64_t id;           // counts the sender's graphs on this connection
    std::uint64_t fingerprint;  // of the root type's layout
    std::uint64_t image_bytes;
    std::uint64_t back_pointers;
    std::uint64_t extensions;
    std::uint64_t layout_bytes;  // 0 if the receiver was told this layout before
    std::uint32_t has_checksum;  // the end message carries XXH3-64 of the image
    std::uint32_t name_bytes;    // of the root type's name, which follows
};
static_assert(sizeof(Offer) == 56);

struct Grant {
    std::uint64_t id;
    std::uint32_t extents;  // RemoteExtents that follow
    std::uint32_t is_last;
};
static_assert(sizeof(Grant) == 16);
static_assert(sizeof(RemoteExtent) == 24);

struct Refusal {
    std::uint64_t id;
    std::uint32_t code;        // an Errc
    std::uint32_t text_bytes;  // of the reason, which follows
};
static_assert(sizeof(Refusal) == 16);

struct Bytes {
    std::uint64_t id;
};
struct End {
    std::uint64_t id;
    std::uint64_t checksum;
};
struct Cancel {
    std::uint64_t id;
};

// Limits that a receiver holds a sender to.
inline constexpr std::uint64_t kMaxLayoutBytes = 1 << 20;
inline constexpr std::uint32_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxOffers = 16;  // announced and neither whole nor cancelled

// At least this often while it writes an image, the sender says that it lives: the receiver does
// not see the writes.
inline constexpr std::uint64_t kSignOfLifeBytes = std::uint64_t{4} << 20;

template <class T>
std::span<const std::byte> bytes_of(const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
    return std::as_bytes(std::span(&value, 1));
}

// Copies the head of a payload and cuts it off; false if the payload is too short.
template <class T>
[[nodiscard]] bool parse(std::span<const std::byte>& payload, T& value) noexcept {
    if (payload.size() < sizeof value) return false;
    std::memcpy(&value, payload.data(), sizeof value);
    payload = payload.subspan(sizeof value);
    return true;
}

}  // namespace verbatim::objects::wire
