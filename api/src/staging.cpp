#include <verbatim/objects/graph/staging.hpp>

#include <algorithm>
#include <cstring>

namespace verbatim::objects {

Staging::Staging(std::shared_ptr<Arena> arena) noexcept : buffers_(std::move(arena)) {}

void Staging::begin() {
    suspend();
    opener_ = nullptr;
    remote_ = Remote::no;
    if (segments_.empty() && pieces_.empty()) return;
    excerpts_.end(buffers_, true);
    excerpts_.set_any(false);
    for (std::uint64_t segment = first_kept_; segment < segments_.size(); ++segment)
        if (std::byte* const buffer = segments_[segment]) buffers_.put(buffer, true);
    segments_.clear();
    pieces_.clear();
    patches_.clear();
    cursor_ = end_ = begun_ = announced_ = written_ = large_bytes_ = first_kept_ = 0;
    base_ = nullptr;
}

// The filled part of the current segment becomes a piece, unless it is at the receiver already.
void Staging::close_segment() {
    if (base_ == nullptr || begun_ == cursor_) return;
    if (remote_ == Remote::no) pieces_.push_back({base_ + begun_, begun_, cursor_ - begun_, true});
    begun_ = cursor_;
}

void Staging::begin_segment(std::uint64_t segment) {
    suspend();
    while (segments_.size() < segment) segments_.push_back(nullptr);
    cursor_ = begun_ = segment * kSegmentBytes;
    end_ = cursor_ + kSegmentBytes;
    segments_.push_back(nullptr);
    if (!open(segment)) fill_from(buffers_.take());
}

// The last segment is filled there.
void Staging::fill_from(std::byte* memory) noexcept {
    segments_.back() = memory;
    base_ = memory - (segments_.size() - 1) * kSegmentBytes;
}

bool Staging::open(std::uint64_t segment) {
    std::byte* const memory =
        opener_ == nullptr ? nullptr : opener_->open(opener_->owner, segment, pieces_);
    remote_ = memory == nullptr ? Remote::no : Remote::open;
    if (memory != nullptr) fill_from(memory);
    return memory != nullptr;
}

void Staging::suspend() noexcept {
    if (remote_ != Remote::open) return;
    opener_->close(opener_->owner);
    segments_.back() = nullptr;
    remote_ = Remote::closed;
}

// Where the rest of the segment cannot be built there any more, it is staged.
void Staging::resume() {
    if (remote_ != Remote::closed || base_ == nullptr) return;
    if (!open(segments_.size() - 1)) fill_from(buffers_.take());
}

std::byte* Staging::place_in_next(std::uint64_t bytes, std::uint64_t alignment,
                                  std::uint64_t& offset) {
    close_segment();
    begin_segment(segment_of(cursor_ + kSegmentBytes - 1));
    return place(bytes, alignment, offset);
}

std::uint64_t Staging::place_large(const std::byte* from, std::uint64_t bytes, Leaves leaves) {
    close_segment();
    const std::uint64_t offset = round_to(cursor_, kSegmentBytes);
    if (leaves == Leaves::in_excerpts) {
        pieces_.push_back({from, offset, 0, false, bytes});
        excerpts_.set_any(true);
    } else if (from != nullptr) {
        pieces_.push_back({from, offset, bytes, false});
    }
    suspend();
    remote_ = Remote::no;
    const std::uint64_t end = round_to(offset + bytes, kSegmentBytes);
    large_bytes_ += end - cursor_;
    cursor_ = begun_ = end_ = end;
    base_ = nullptr;
    while (segments_.size() < segment_of(cursor_)) segments_.push_back(nullptr);
    return offset;
}

void Staging::list(const std::byte* from, std::uint64_t bytes) {
    pieces_.push_back({from, cursor_, bytes, false});
    cursor_ = begun_ = end_ = cursor_ + bytes;
    base_ = nullptr;
    while (segments_.size() < segment_of(cursor_ + kSegmentBytes - 1)) segments_.push_back(nullptr);
}

void Staging::patch(std::uint64_t offset, std::span<const std::byte> bytes) {
    Patch patch;
    patch.offset = offset;
    patch.bytes = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(patch.data, bytes.data(), bytes.size());
    patches_.push_back(patch);
}

std::span<const Piece> Staging::pieces() {
    close_segment();
    return pieces_;
}

void Staging::set_announced(bool is_sent) {
    if (is_sent) written_ = cursor_;
    pieces_.clear();
    patches_.clear();
    excerpts_.end(buffers_, is_sent);
    announced_ = cursor_;
    // The segment that is being filled stays.
    const std::uint64_t current = base_ == nullptr ? segments_.size() : segments_.size() - 1;
    for (; first_kept_ < current; ++first_kept_) {
        // The first part of a segment may have been written before the rest was dropped.
        if (std::byte* const buffer = segments_[first_kept_])
            buffers_.put(buffer, first_kept_ * kSegmentBytes < written_);
        segments_[first_kept_] = nullptr;
    }
}

}  // namespace verbatim::objects
