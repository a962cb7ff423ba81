// An image holds the objects of a graph as the receiver will have them (docs/graphs.md). Places in
// it are offsets. It is cut into segments, which may lie anywhere in the receiver's memory. No
// object crosses the end of a segment; a larger object gets whole segments of its own, side by
// side.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::objects {

inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{256} << 10;
// Objects that others may refer to start on a multiple of this.
inline constexpr std::uint64_t kImageGranule = 16;
// Images are at most this long: a place is named by the 32-bit number of its granule.
inline constexpr std::uint64_t kMaxImageBytes = (std::uint64_t{1} << 32) * kImageGranule / 2;

// A reference field of an image holds one of three things. Zero is null. With this bit, the rest is
// the offset of its target. Anything else, most often the sender's own address, is the next
// reference of the walk: to a new object, unless a record says otherwise.
inline constexpr std::uint64_t kPlaceBit = std::uint64_t{1} << 63;

constexpr std::uint64_t round_to(std::uint64_t value, std::uint64_t alignment) noexcept {
    return (value + alignment - 1) / alignment * alignment;
}
constexpr std::uint64_t segment_of(std::uint64_t offset) noexcept { return offset / kSegmentBytes; }

// A record says where a reference leads whose field could not be written any more. References are
// numbered in the order of the walk.
struct PlaceRecord {
    std::uint64_t reference = 0;
    std::uint64_t offset = 0;  // of its target
};
// A reference that leads into objects which are placed as a whole at this point of the walk.
struct ArrayRecord {
    std::uint64_t reference = 0;
    std::uint64_t offset = 0;  // of its target
    std::uint64_t count = 0;   // elements
    std::uint64_t type = 0;    // their number in the closure
};

}  // namespace verbatim::objects
