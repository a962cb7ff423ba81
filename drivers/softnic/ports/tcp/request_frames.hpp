// The frames of a requester, kept until the responder has taken them: what it discards is sent
// again from here, so no work request is read twice. One producer, the thread inside the send gate;
// one consumer, the thread inside the stream's gate.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "byte_ring.hpp"
#include "frame.hpp"

namespace verbatim::softnic {

class RequestFrames {
  public:
    static constexpr std::size_t kBytes = std::size_t{256} << 10;

    RequestFrames() : ring_(kBytes) {}  // throws std::bad_alloc

    // The producer: room; the header of another frame, whose number this returns; its bytes; the
    // whole frame may be sent.
    std::size_t room() const noexcept {
        return kBytes - (written_ - released_.load(std::memory_order_acquire));
    }
    std::uint64_t begin(FrameKind kind, std::size_t body_bytes, std::uint8_t flags = 0) noexcept;
    void add(const void* from, std::size_t bytes) noexcept {
        ring_.put(written_, from, bytes);
        written_ += bytes;
    }
    void commit() noexcept { committed_.store(written_, std::memory_order_release); }

    // The consumer. Some bytes of a batch of whole frames were sent: the rest goes first.
    bool in_batch() const noexcept { return sent_ != batch_end_; }
    // What may be sent now: the rest of the batch, or another one.
    void gather(Gathered& into) noexcept;
    bool unsent() const noexcept {
        return in_batch() || (!paused_ && sent_ != committed_.load(std::memory_order_acquire));
    }
    // So many of the bytes that were gathered last.
    void note_sent(std::size_t bytes) noexcept;
    // The responder has taken all frames up to this number. False: that cannot be.
    bool release(std::uint64_t number) noexcept;
    // It discards what follows: from the next whole frame on nothing is sent. It takes frames
    // again, from the oldest one that is kept.
    void pause() noexcept { paused_ = true; }
    void repeat() noexcept;

  private:
    void rewind() noexcept;

    ByteRing ring_;
    std::uint64_t written_ = 0, numbers_ = 0;  // the producer's
    std::atomic<std::uint64_t> committed_{0}, released_{0};
    std::uint64_t sent_ = 0, batch_end_ = 0, gathered_end_ = 0;  // the consumer's
    std::uint64_t released_number_ = 0;
    bool paused_ = false, rewinds_ = false;
};

}  // namespace verbatim::softnic
