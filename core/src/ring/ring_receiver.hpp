// The receiving end of a message ring: finds complete records in local memory that the peer writes.
// Knows no device. Every word of the ring is owned (written) by the peer; this side only reads.
// Threads: one at a time. Data path: no allocation, lock, system call or exception.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/core/connection.hpp>

#include "ring_format.hpp"

namespace verbatim {

class RingReceiver {
  public:
    // `memory`: `bytes` of it, a valid ring size, 8-byte aligned.
    RingReceiver(const std::byte* memory, std::size_t bytes, std::uint64_t key) noexcept
        : memory_(memory), mask_(bytes - 1), key_(key), tag_(ring::tag(key, 0)) {}

    // The next record's payload and its credit. would_block: none is complete, or one is held.
    // protocol_error: a complete record contradicts the format (for good).
    Errc try_receive(Message& message, std::uint32_t& credit) noexcept {
        if (held_ != 0) return Errc::would_block;
        const std::uint64_t raw = load(offset());
        if (load(trailer_of(raw)) != tag_) return Errc::would_block;
        return accept(message, credit);
    }

    // Gives the held record's space back. Does nothing when none is held.
    void release() noexcept { move_by(held_), held_ = 0; }

    // Hands the held record out again at the next try_receive().
    void put_back() noexcept { held_ = 0; }
    // True if a record is complete and not held.
    bool ready() const noexcept { return held_ == 0 && load(trailer_of(load(offset()))) == tag_; }

    // Everything before this position may be overwritten.
    std::uint64_t consumed() const noexcept { return position_; }
    bool holds() const noexcept { return held_ != 0; }
    // The record handed out; only while one is held.
    const Message& held() const noexcept { return message_; }

  private:
    std::size_t offset() const noexcept { return position_ & mask_; }
    std::uint64_t load(std::size_t at) const noexcept {
        return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(memory_ + at),
                               __ATOMIC_ACQUIRE);
    }
    // Where the trailer of a record with this word 0 would be; within the ring whatever the word
    // says, as it may be an old byte of payload.
    std::size_t trailer_of(std::uint64_t raw) const noexcept {
        const ring::Word0 word = ring::Word0::from(raw);
        const std::size_t length =
            word.kind == ring::kPad ? 0 : ring::round_up(word.length, ring::kWordBytes);
        return (offset() + ring::kWordBytes + length) & mask_;
    }

    // The trailer is there, so word 0 is too, but perhaps was not yet when it was first read.
    Errc accept(Message& message, std::uint32_t& credit) noexcept {
        const std::uint64_t raw = load(offset());
        if (load(trailer_of(raw)) != tag_) return Errc::would_block;
        const ring::Word0 word = ring::Word0::from(raw);
        const std::size_t to_end = mask_ + 1 - offset();
        if (word.kind == ring::kPad) {
            // No longer than the longest record, so a pad cannot follow a pad and this recurs once
            // at most.
            if (word.length != to_end || to_end > (mask_ + 1) / 4) return Errc::protocol_error;
            move_by(to_end);
            return try_receive(message, credit);
        }
        if (word.length > ring::max_payload(mask_ + 1) || ring::record_bytes(word.length) > to_end)
            return Errc::protocol_error;
        credit = word.credit;
        message.kind = static_cast<std::uint8_t>(word.kind);
        message.payload = {memory_ + offset() + ring::kWordBytes, word.length};
        message_ = message;
        held_ = ring::slot_bytes(word.length);
        return Errc::ok;
    }

    void move_by(std::size_t bytes) noexcept {
        position_ += bytes;
        tag_ = ring::tag(key_, position_);
    }

    const std::byte* memory_;
    std::size_t mask_;
    std::uint64_t key_;
    std::uint64_t position_ = 0;
    std::uint64_t tag_;     // of position_
    std::size_t held_ = 0;  // slot bytes of the record handed out
    Message message_;       // that record
};

}  // namespace verbatim
