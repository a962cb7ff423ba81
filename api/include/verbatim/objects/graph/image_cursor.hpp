// The image cursor takes one object after the other from the memory of an image. It goes by the
// rule by which Staging gave them their places, and never beyond what the sender has told of.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/graph/image.hpp>

namespace verbatim::objects {

[[noreturn]] void throw_corrupt(const char* what);

class ImageCursor {
  public:
    void begin() noexcept;
    // Memory of the segments from `first` on; `bytes` are whole segments but for the last. Throws
    // Error(corrupt_message) if they do not follow those before.
    void add_memory(std::uint64_t first, std::byte* memory, std::uint64_t bytes);
    // Everything before `told` is there. Throws Error(corrupt_message) if it has no memory.
    void advance_to(std::uint64_t told);

    [[gnu::always_inline]] std::byte* take(std::uint64_t bytes, std::uint64_t alignment,
                                           std::uint64_t& offset) {
        const std::uint64_t start = round_to(cursor_, alignment);
        if (bytes > kSegmentBytes || start + bytes > end_)
            return take_in_next(bytes, alignment, offset);
        offset = start;
        cursor_ = start + bytes;
        return base_ + start;
    }
    // Where `bytes` more would be taken from, if they are in the same segment; else null.
    std::byte* peek(std::uint64_t bytes, std::uint64_t alignment,
                    std::uint64_t& offset) const noexcept {
        offset = round_to(cursor_, alignment);
        return offset + bytes > end_ ? nullptr : base_ + offset;
    }
    void set(std::uint64_t cursor) noexcept { cursor_ = cursor; }

    std::uint64_t cursor() const noexcept { return cursor_; }
    std::uint64_t told() const noexcept { return told_; }
    // Of an offset before told().
    std::byte* memory_at(std::uint64_t offset) const noexcept {
        return bases_[segment_of(offset)] + offset % kSegmentBytes;
    }

  private:
    std::byte* take_in_next(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& offset);
    void set_segment(std::uint64_t offset) noexcept;
    void check_side_by_side(std::uint64_t offset, std::uint64_t bytes) const;

    std::uint64_t cursor_ = 0;
    std::uint64_t end_ = 0;      // of the segment at the cursor, as far as it was told
    std::byte* base_ = nullptr;  // its memory, less the offset of its start
    std::uint64_t told_ = 0;
    std::uint64_t memory_end_ = 0;
    Column<std::byte*> bases_;  // by segment
};

}  // namespace verbatim::objects
