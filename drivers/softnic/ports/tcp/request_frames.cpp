// Batches, release and repetition of a requester's frames.
#include "request_frames.hpp"

namespace verbatim::softnic {

std::uint64_t RequestFrames::begin(FrameKind kind, std::size_t body_bytes,
                                   std::uint8_t flags) noexcept {
    FrameHeader header;
    header.bytes = static_cast<std::uint32_t>(sizeof header + body_bytes);
    header.kind = kind;
    header.flags = flags;
    header.number = ++numbers_;
    add(&header, sizeof header);
    return numbers_;
}

void RequestFrames::gather(Gathered& into) noexcept {
    gathered_end_ = batch_end_;
    if (!in_batch()) {
        if (paused_) return;
        gathered_end_ = committed_.load(std::memory_order_acquire);
    }
    into.add(ring_, sent_, gathered_end_ - sent_);
}

void RequestFrames::note_sent(std::size_t bytes) noexcept {
    if (bytes == 0) return;
    batch_end_ = gathered_end_;
    sent_ += bytes;
    if (rewinds_ && !in_batch()) rewind();
}

bool RequestFrames::release(std::uint64_t number) noexcept {
    std::uint64_t oldest = released_.load(std::memory_order_relaxed);
    while (released_number_ < number) {
        FrameHeader header;
        if (sent_ - oldest < sizeof header) return false;
        ring_.get(oldest, &header, sizeof header);
        if (sent_ - oldest < header.bytes) return false;
        oldest += header.bytes;
        released_number_ = header.number;
    }
    released_.store(oldest, std::memory_order_release);
    return released_number_ == number;
}

void RequestFrames::repeat() noexcept {
    paused_ = false;
    if (in_batch())
        rewinds_ = true;
    else
        rewind();
}

void RequestFrames::rewind() noexcept {
    rewinds_ = false;
    sent_ = batch_end_ = released_.load(std::memory_order_relaxed);
}

}  // namespace verbatim::softnic
