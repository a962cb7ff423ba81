#include <verbatim/objects/graph/image_cursor.hpp>

#include <algorithm>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {

void throw_corrupt(const char* what) {
    throw Error(Errc::corrupt_message, "received graph", what,
                "the graph was dropped; nothing of it was handed out");
}

void ImageCursor::begin() noexcept {
    cursor_ = end_ = told_ = memory_end_ = 0;
    base_ = nullptr;
    bases_.clear();
}

void ImageCursor::add_memory(std::uint64_t first, std::byte* memory, std::uint64_t bytes) {
    if (first != bases_.size() || memory_end_ % kSegmentBytes != 0 || bytes == 0)
        throw_corrupt("its segments do not follow each other");
    for (std::uint64_t at = 0; at < bytes; at += kSegmentBytes) bases_.push_back(memory + at);
    memory_end_ = first * kSegmentBytes + bytes;
}

void ImageCursor::advance_to(std::uint64_t told) {
    if (told < told_ || told > memory_end_) throw_corrupt("it contradicts itself");
    told_ = told;
    if (base_ != nullptr) set_segment(cursor_);
}

// The segment that an offset, or the end of one, belongs to.
void ImageCursor::set_segment(std::uint64_t offset) noexcept {
    const std::uint64_t segment = offset == 0 ? 0 : segment_of(offset - 1);
    end_ = std::min((segment + 1) * kSegmentBytes, told_);
    base_ = bases_[segment] - segment * kSegmentBytes;
}

std::byte* ImageCursor::take_in_next(std::uint64_t bytes, std::uint64_t alignment,
                                     std::uint64_t& offset) {
    const bool is_large = bytes > kSegmentBytes;
    // Still in this segment: then it lies behind what was told.
    if (!is_large && base_ != nullptr && cursor_ % kSegmentBytes != 0 &&
        round_to(cursor_, alignment) + bytes <= round_to(cursor_, kSegmentBytes))
        throw_corrupt("an object lies behind its end");
    offset = round_to(cursor_, kSegmentBytes);
    if (offset > told_ || bytes > told_ - offset) throw_corrupt("an object lies behind its end");
    std::byte* const at = memory_at(offset);
    if (is_large) {
        check_side_by_side(offset, bytes);
        cursor_ = round_to(offset + bytes, kSegmentBytes);
        end_ = 0;
        base_ = nullptr;
        return at;
    }
    cursor_ = offset + bytes;
    set_segment(offset + 1);
    return at;
}

void ImageCursor::check_side_by_side(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t first = segment_of(offset), last = segment_of(offset + bytes - 1);
    for (std::uint64_t segment = first + 1; segment <= last; ++segment)
        if (bases_[segment] != bases_[segment - 1] + kSegmentBytes)
            throw_corrupt("a large object lies in several pieces");
}

}  // namespace verbatim::objects
