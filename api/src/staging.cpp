#include <verbatim/objects/graph/staging.hpp>

#include <algorithm>
#include <cstring>

namespace verbatim::objects {

namespace {

void release(Arena& arena, std::byte* buffer) noexcept {
    arena.deallocate(buffer, kSegmentBytes, 4096);
}

}  // namespace

Staging::Staging(std::shared_ptr<Arena> arena) noexcept : arena_(std::move(arena)) {}

Staging::~Staging() {
    begin();
    set_retired();
    for (std::byte* const buffer : spare_) release(*arena_, buffer);
}

std::byte* Staging::take_buffer() {
    if (spare_.empty()) return static_cast<std::byte*>(arena_->allocate(kSegmentBytes, 4096));
    std::byte* const buffer = spare_.back();
    spare_.pop_back();
    return buffer;
}

void Staging::begin() {
    suspend();
    opener_ = nullptr;
    is_remote_ = false;
    if (buffers_.empty() && pieces_.empty()) return;
    for (std::uint64_t segment = first_kept_; segment < buffers_.size(); ++segment)
        if (std::byte* const buffer = buffers_[segment]) under_way_.push_back(buffer);
    buffers_.clear();
    pieces_.clear();
    patches_.clear();
    cursor_ = end_ = begun_ = announced_ = first_kept_ = 0;
    base_ = nullptr;
}

// The filled part of the current segment becomes a piece, unless it is at the receiver already.
void Staging::close_segment() {
    if (base_ == nullptr || begun_ == cursor_) return;
    if (!is_remote_) pieces_.push_back({base_ + begun_, begun_, cursor_ - begun_, true});
    begun_ = cursor_;
}

void Staging::begin_segment(std::uint64_t segment) {
    suspend();
    while (buffers_.size() < segment) buffers_.push_back(nullptr);
    cursor_ = begun_ = segment * kSegmentBytes;
    end_ = cursor_ + kSegmentBytes;
    buffers_.push_back(nullptr);
    if (!open(segment)) fill_from(take_buffer());
}

// The last segment is filled there.
void Staging::fill_from(std::byte* memory) noexcept {
    buffers_.back() = memory;
    base_ = memory - (buffers_.size() - 1) * kSegmentBytes;
}

bool Staging::open(std::uint64_t segment) {
    std::byte* const memory =
        opener_ == nullptr ? nullptr : opener_->open(opener_->owner, segment, pieces_);
    is_remote_ = is_open_ = memory != nullptr;
    if (is_remote_) fill_from(memory);
    return is_remote_;
}

void Staging::suspend() noexcept {
    if (!is_open_) return;
    opener_->close(opener_->owner);
    buffers_.back() = nullptr;
    is_open_ = false;
}

// Where the rest of the segment cannot be built there any more, it is staged.
void Staging::resume() {
    if (!is_remote_ || base_ == nullptr || is_open_) return;
    if (!open(buffers_.size() - 1)) fill_from(take_buffer());
}

std::byte* Staging::place_in_next(std::uint64_t bytes, std::uint64_t alignment,
                                  std::uint64_t& offset) {
    close_segment();
    begin_segment(segment_of(cursor_ + kSegmentBytes - 1));
    return place(bytes, alignment, offset);
}

std::uint64_t Staging::place_large(const std::byte* from, std::uint64_t bytes) {
    close_segment();
    const std::uint64_t offset = round_to(cursor_, kSegmentBytes);
    if (from != nullptr) pieces_.push_back({from, offset, bytes, false});
    suspend();
    is_remote_ = false;
    cursor_ = begun_ = end_ = round_to(offset + bytes, kSegmentBytes);
    base_ = nullptr;
    while (buffers_.size() < segment_of(cursor_)) buffers_.push_back(nullptr);
    return offset;
}

void Staging::list(const std::byte* from, std::uint64_t bytes) {
    pieces_.push_back({from, cursor_, bytes, false});
    cursor_ = begun_ = end_ = cursor_ + bytes;
    base_ = nullptr;
    while (buffers_.size() < segment_of(cursor_ + kSegmentBytes - 1)) buffers_.push_back(nullptr);
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

void Staging::set_announced() {
    pieces_.clear();
    patches_.clear();
    announced_ = cursor_;
    // The segment that is being filled stays.
    const std::uint64_t current = base_ == nullptr ? buffers_.size() : buffers_.size() - 1;
    for (; first_kept_ < current; ++first_kept_) {
        if (std::byte* const buffer = buffers_[first_kept_]) under_way_.push_back(buffer);
        buffers_[first_kept_] = nullptr;
    }
}

void Staging::set_retired() {
    spare_.insert(spare_.end(), under_way_.begin(), under_way_.end());
    under_way_.clear();
}

void Staging::shrink() noexcept {
    while (spare_.size() > kKept) {
        release(*arena_, spare_.back());
        spare_.pop_back();
    }
}

}  // namespace verbatim::objects
