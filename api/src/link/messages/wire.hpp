// What sender and receiver of a graph say to each other: the payloads of the kinds of channel 240,
// described in docs/wire.md, "Graphs". Both sides have the same byte order (the hello sees to it).
// Received payloads are read through parse(), which copies and checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/graph/image.hpp>

namespace verbatim::objects::wire {

inline constexpr std::uint8_t kChannel = kLayerChannels;

enum Kind : std::uint8_t {
    // Of a sender.
    kLayout = 0,    // LayoutPart, bytes of the text
    kEager = 1,     // Eager, PlaceRecords, ArrayRecords, image
    kBegin = 2,     // Begin
    kFragment = 3,  // Fragment, Bindings, PlaceRecords, ArrayRecords, Amendments
    kRestart = 4,   // GraphId
    kCancel = 5,    // GraphId
    kNeed = 6,      // Need
    kReturn = 7,    // Return
    // Of a receiver.
    kLend = 8,      // Lend, RemoteExtents
    kFree = 9,      // SlotRanges
    kRefusal = 10,  // Refusal, text
    kReclaim = 11,  // WindowId
    // Of a sender.
    kClass = 12,  // Class, name
    kRoom = 13,   // Room
};

inline constexpr std::uint64_t kSlotBytes = kSegmentBytes;

struct LayoutPart {
    std::uint64_t fingerprint;
    std::uint32_t total_bytes;
    std::uint32_t position;  // of the bytes that follow
};

// A class that graphs use from here on, by its number.
struct Class {
    std::uint64_t fingerprint;
    std::uint32_t number;
    std::uint16_t name_bytes;
    std::uint16_t file_bytes;  // behind the name: of the file that describes it
};

// Flags of a graph.
inline constexpr std::uint16_t kAcyclic = 1;
inline constexpr std::uint16_t kComposed = 2;  // the image is a composed message

struct Eager {
    std::uint64_t id;
    std::uint64_t fingerprint;
    std::uint32_t image_bytes;
    std::uint32_t steps;
    std::uint32_t references;
    std::uint32_t places;
    std::uint32_t arrays;
    std::uint16_t channel;
    std::uint16_t flags;
};
static_assert(sizeof(Eager) == 40);

struct Begin {
    std::uint64_t id;
    std::uint64_t fingerprint;
    std::uint16_t channel;
    std::uint16_t flags;
    std::uint32_t reserved;
};

inline constexpr std::uint32_t kPartial = 1;  // steps and references are not told yet
inline constexpr std::uint32_t kLast = 2;     // nothing of the graph follows
// Large arrays leave in excerpts: bytes before the cursor may be written until their elements are
// walked.
inline constexpr std::uint32_t kExcerpts = 4;

struct Fragment {
    std::uint64_t id;
    std::uint64_t cursor;  // all bytes of the image before are written, but for excerpts
    std::uint64_t steps;
    std::uint64_t references;
    std::uint32_t bindings;
    std::uint32_t places;
    std::uint32_t arrays;
    std::uint32_t amendments;
    std::uint32_t flags;
    std::uint32_t reserved;
};
static_assert(sizeof(Fragment) == 56);

// So many segments of the image lie in these slots.
struct Binding {
    std::uint32_t segment;
    std::uint32_t window;
    std::uint32_t slot;
    std::uint32_t count;
};

// Bytes of the image that had been written otherwise.
struct Amendment {
    static constexpr std::size_t kMost = 32;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::byte data[kMost];
};
static_assert(sizeof(Amendment) == 48);

struct GraphId {
    std::uint64_t id;
};
struct Need {
    std::uint64_t id;
    std::uint32_t slots;    // side by side
    std::uint32_t changes;  // of the windows, that the sender knows of
    std::uint32_t all;      // slots that the rest of the graph takes; 0: the walk has not ended
    std::uint32_t zero;
};
static_assert(sizeof(Need) == 24);
// A message is being composed that wants so many slots side by side. Nothing is owed to it.
struct Room {
    std::uint64_t slots;
};
struct WindowId {
    std::uint32_t window;
    std::uint32_t flags;
};
// Of a reclaim and its return: also a window that graphs lie in which have come in.
inline constexpr std::uint32_t kForGood = 1;
// One for good may concern a window that the receiver has dropped meanwhile, and lent anew.
struct Return {
    std::uint32_t window;
    std::uint32_t flags;
    std::uint32_t changes;  // of the windows, that the sender knows of
    std::uint32_t zero;
};

struct Lend {
    std::uint32_t window;
    std::uint32_t slots;
    std::uint32_t extents;  // RemoteExtents that follow
    std::uint32_t is_last;
};
struct SlotRange {
    std::uint32_t window;
    std::uint32_t slot;
    std::uint32_t count;
    std::uint32_t reserved;
};
struct Refusal {
    std::uint64_t id;
    std::uint32_t code;  // an Errc
    std::uint32_t text_bytes;
};

// Limits that each side holds the other to.
inline constexpr std::uint32_t kMaxLayoutBytes = 1 << 20;
inline constexpr std::size_t kMaxOpen = 64;       // streamed graphs, begun and not ended
inline constexpr std::size_t kMaxWaiting = 1024;  // whole graphs that nobody took
inline constexpr std::uint32_t kMaxWindows = 1 << 14;
inline constexpr std::uint32_t kMaxSlots = 1 << 17;  // of one window

// At least this often while it writes, the sender says that it lives: the receiver does not see
// the writes.
inline constexpr std::uint64_t kSignOfLifeBytes = std::uint64_t{4} << 20;

template <class T>
std::span<const std::byte> bytes_of(const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return std::as_bytes(std::span(&value, 1));
}

// Copies the head of a payload and cuts it off; false if the payload is too short.
template <class T>
[[nodiscard]] bool parse(std::span<const std::byte>& payload, T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    if (payload.size() < sizeof value) return false;
    std::memcpy(&value, payload.data(), sizeof value);
    payload = payload.subspan(sizeof value);
    return true;
}

}  // namespace verbatim::objects::wire
