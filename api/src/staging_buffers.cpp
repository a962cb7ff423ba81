#include <verbatim/objects/graph/image.hpp>
#include <verbatim/objects/graph/staging_buffers.hpp>

#include <cstring>
#include <exception>
#include <utility>

namespace verbatim::objects {
namespace {

void release(Arena& arena, std::byte* buffer) noexcept {
    arena.deallocate(buffer, kSegmentBytes, 4096);
}

}  // namespace

StagingBuffers::StagingBuffers(std::shared_ptr<Arena> arena) noexcept : arena_(std::move(arena)) {}

StagingBuffers::~StagingBuffers() {
    set_retired();
    for (std::byte* const buffer : spare_) release(*arena_, buffer);
}

std::byte* StagingBuffers::take() {
    if (spare_.empty()) return static_cast<std::byte*>(arena_->allocate(kSegmentBytes, 4096));
    std::byte* const buffer = spare_.back();
    spare_.pop_back();
    return buffer;
}

// Half of the arena stays for the program, and for walks that hold nothing back.
bool StagingBuffers::reserve(std::size_t count) noexcept try {
    if (arena_->usage().allocated_bytes > arena_->reserved_bytes() / 2) return false;
    spare_.reserve(count);
    while (spare_.size() < count)
        spare_.push_back(static_cast<std::byte*>(arena_->allocate(kSegmentBytes, 4096)));
    return true;
} catch (const std::exception&) {
    return false;
}

void StagingBuffers::set_retired() {
    spare_.insert(spare_.end(), under_way_.begin(), under_way_.end());
    under_way_.clear();
}

void StagingBuffers::take_over(StagingBuffers& from) {
    under_way_.insert(under_way_.end(), from.under_way_.begin(), from.under_way_.end());
    from.under_way_.clear();
}

void StagingBuffers::shrink(std::size_t kept) noexcept {
    while (spare_.size() > kept) {
        release(*arena_, spare_.back());
        spare_.pop_back();
    }
}

void Excerpts::add(const Piece& source, std::vector<Piece>& pieces, StagingBuffers& from) {
    if (buffers_.empty() || used_ + source.bytes > kSegmentBytes) {
        buffers_.push_back(from.take());
        used_ = 0;
    }
    std::byte* const to = buffers_.back() + used_;
    std::memcpy(to, source.from, source.bytes);
    used_ += source.bytes;
    bytes_ += source.bytes;
    const auto follows = [&](const Piece& piece) {
        return piece.is_staged && piece.from + piece.bytes == to &&
               piece.offset + piece.bytes == source.offset;
    };
    if (!pieces.empty() && follows(pieces.back()))
        pieces.back().bytes += source.bytes;
    else
        pieces.push_back({to, source.offset, source.bytes, true});
    last_ = pieces.back();
}

void Excerpts::end(StagingBuffers& to, bool are_written) {
    for (; !buffers_.empty(); buffers_.pop_back()) to.put(buffers_.back(), are_written);
    bytes_ = 0;
    last_ = {};
}

}  // namespace verbatim::objects
