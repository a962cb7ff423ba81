// The frames that a responder sends back: results and words, in their order. Threads: the one
// inside the stream's gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "byte_ring.hpp"
#include "frame.hpp"
#include "read_results.hpp"

namespace verbatim::softnic {

class AnswerQueue {
  public:
    // Room for all results that a requester may ask for, and for words.
    static constexpr std::size_t kBytes = 2 * kResultBytes;

    AnswerQueue() : ring_(kBytes) {}  // throws std::bad_alloc

    std::size_t room() const noexcept { return kBytes - (end_ - sent_); }
    void begin(FrameKind kind, std::uint64_t number, std::size_t body_bytes,
               std::uint8_t flags = 0) noexcept {
        FrameHeader header;
        header.bytes = static_cast<std::uint32_t>(sizeof header + body_bytes);
        header.kind = kind;
        header.flags = flags;
        header.number = number;
        left_ = sizeof header + body_bytes;
        add(&header, sizeof header);
    }
    // Of the frame that was begun, which may be sent when all of it is there.
    void add(const void* from, std::size_t bytes) noexcept {
        ring_.put(end_, from, bytes);
        end_ += bytes;
        left_ -= bytes;
        if (left_ == 0) whole_end_ = end_;
    }
    // No frame is begun and unfinished: another one may follow.
    bool whole() const noexcept { return left_ == 0; }

    bool unsent() const noexcept { return sent_ != whole_end_; }
    void gather(Gathered& into) const noexcept { into.add(ring_, sent_, whole_end_ - sent_); }
    void note_sent(std::size_t bytes) noexcept { sent_ += bytes; }

  private:
    ByteRing ring_;
    std::uint64_t sent_ = 0, end_ = 0, whole_end_ = 0;
    std::size_t left_ = 0;
};

}  // namespace verbatim::softnic
