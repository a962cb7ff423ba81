// The receiving end of a message ring finds complete records in local memory that the peer writes.
// Knows no device. Every word of the ring is owned (written) by the peer; this side only reads.
// Threads: the lane's. Data path: no allocation, lock, system call or exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/driver/error.hpp>

#include "held_records.hpp"
#include "polled_words.hpp"
#include "ring_format.hpp"

namespace verbatim {

// A record that was handed out: a view into the ring.
struct Record {
    std::uint8_t channel = 0;
    std::uint8_t kind = 0;
    std::uint32_t credit = 0;
    bool is_new = false;                       // its credit was not seen by look_ahead()
    ring::Frame frame = ring::Frame::message;  // no pad, no batch
    std::uint32_t number = 0;                  // for release()
    std::span<const std::byte> payload;
};

class RingReceiver {
  public:
    // `memory`: `bytes` of it, a valid ring size, 8-byte aligned.
    RingReceiver(const std::byte* memory, std::size_t bytes, std::uint64_t key) noexcept
        : memory_(memory), mask_(bytes - 1), key_(key), tag_(ring::tag(key, 0)) {}

    // The next record; it is held until release(). would_block: none is complete, or as many are
    // held as can be. protocol_error: a complete record contradicts the format (for good).
    Errc next(Record& record) noexcept {
        if (batch_left_ == 0) return next_whole(record);
        return held_.full() ? Errc::would_block : next_of_batch(record);
    }
    // Gives a record's space back.
    void release(std::uint32_t number) noexcept { consumed_ = held_.give_back(number, position_); }

    // Passes pads, whose space is given back then even where no message is asked for.
    // True: a notice is next.
    bool skip_pads() noexcept {
        for (std::size_t pads = 0; pads <= mask_ / ring::kAlignment; ++pads) {
            if (batch_left_ != 0 || !ready()) return false;
            const std::size_t at = offset();
            const std::uint64_t raw = load(at);  // once more, behind the trailer
            const ring::Word0 word = ring::Word0::from(raw);
            if (load(trailer_at(offset(), raw)) != tag_ || slot_of(word, at) == 0) return false;
            if (word.frame != ring::Frame::pad) return word.frame == ring::Frame::ended_keys;
            pass(word.length);
            if (held_.empty()) consumed_ = position_;
        }
        return false;
    }

    // True if a record is complete.
    bool ready() const noexcept {
        return batch_left_ != 0 || load(trailer_at(offset(), load(offset()))) == tag_;
    }
    // True if a record is complete behind all that were seen.
    bool has_unseen() const noexcept {
        return seen_ == position_ ? ready() : is_complete(seen_ & mask_, seen_);
    }
    // Nothing has come, and all that had come before was handed out. Then `words` say whether
    // anything comes.
    bool is_quiet(PolledWords& words) const noexcept {
        if (seen_ != position_ || batch_left_ != 0) return false;
        words.seen_record = load(offset());
        const std::size_t trailer = trailer_at(offset(), words.seen_record);
        words.record = reinterpret_cast<const std::uint64_t*>(memory_ + offset());
        words.trailer = reinterpret_cast<const std::uint64_t*>(memory_ + trailer);
        words.tag = tag_;
        return load(trailer) != tag_;
    }
    // Looks at complete records that were not seen, without handing them out, as far as `position`
    // or as there are any. `credit`: that of the last one, if `count` of them is not 0. `pads`:
    // they count apart, as no credit is in them, but their space is to be given back.
    // protocol_error: one contradicts the format (for good).
    struct Seen {
        std::uint32_t count = 0, credit = 0, pads = 0;
    };
    Errc look_ahead(Seen& seen, std::uint64_t position = ~std::uint64_t{0}) noexcept;
    // ok: memory holds every record up to `position`, and they were seen. would_block: not yet.
    // protocol_error where no record of this ring ends there, for good.
    Errc holds_up_to(std::uint64_t position, Seen& seen) noexcept;

    // The position of the next record, and the one before which everything may be overwritten.
    std::uint64_t position() const noexcept { return position_; }
    std::uint64_t consumed() const noexcept { return consumed_; }
    std::uint32_t held() const noexcept { return held_.count(); }
    bool is_full() const noexcept { return held_.full(); }
    // Held records keep more than half of the ring.
    bool holds_half() const noexcept {
        return !held_.empty() && position_ - consumed_ > (mask_ + 1) / 2;
    }

  private:
    // So many rings ahead of what was consumed an honest sender may be: its lap ended early, and
    // the next is full.
    static constexpr std::uint64_t kFarthest = 2;

    std::size_t offset() const noexcept { return position_ & mask_; }
    std::uint64_t load(std::size_t at) const noexcept {
        return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(memory_ + at),
                               __ATOMIC_ACQUIRE);
    }
    // Where the trailer of a record with this word 0 would be; within the ring whatever the word
    // says.
    std::size_t trailer_at(std::size_t offset, std::uint64_t raw) const noexcept {
        const ring::Word0 word = ring::Word0::from(raw);
        const std::size_t length =
            word.frame == ring::Frame::pad ? 0 : ring::round_up(word.length, ring::kWordBytes);
        return (offset + ring::kWordBytes + length) & mask_;
    }

    // The record at this offset and position is complete.
    bool is_complete(std::size_t at, std::uint64_t position) const noexcept {
        return load(trailer_at(at, load(at))) == ring::tag(key_, position);
    }

    // Bytes that the complete record with this word 0 takes at this offset; 0: against the format.
    std::size_t slot_of(const ring::Word0& word, std::size_t offset) const noexcept {
        const std::size_t to_end = mask_ + 1 - offset;
        if (word.frame == ring::Frame::pad)
            return word.length % ring::kAlignment == 0 && word.length <= to_end ? word.length : 0;
        if (word.frame > ring::Frame::ended_keys || word.length > ring::max_payload(mask_ + 1) ||
            ring::record_bytes(word.length) > to_end)
            return 0;
        return ring::slot_bytes(word.length);
    }

    // Behind the batch, if there was one.
    [[gnu::noinline]] Errc next_whole(Record& record) noexcept {
        // An honest sender's pads end with its ring: their space is given back by later calls only.
        for (std::size_t pads = 0; pads <= mask_ / ring::kAlignment; ++pads) {
            const std::uint64_t raw = load(offset());
            if (load(trailer_at(offset(), raw)) != tag_) return Errc::would_block;
            if (held_.full()) [[unlikely]]
                return Errc::would_block;
            bool is_pad = false;
            const Errc error = accept(record, raw, is_pad);
            if (!is_pad) [[likely]]
                return error;
        }
        return Errc::protocol_error;
    }

    // The trailer is there, so word 0 is too, but perhaps was not yet when it was read: `before`.
    Errc accept(Record& record, std::uint64_t before, bool& is_pad) noexcept {
        const std::size_t at = offset();
        const std::uint64_t raw = load(at);
        if (raw != before && load(trailer_at(offset(), raw)) != tag_) [[unlikely]]
            return Errc::would_block;
        const ring::Word0 word = ring::Word0::from(raw);
        const std::size_t slot = slot_of(word, at);
        if (slot == 0) [[unlikely]]
            return Errc::protocol_error;
        const std::uint64_t start = position_;
        const bool is_new = start >= seen_;
        if (word.frame == ring::Frame::batch) return begin_batch(record, word, is_new);
        pass(slot);
        is_pad = word.frame == ring::Frame::pad;
        if (is_pad) [[unlikely]] {
            if (held_.empty()) consumed_ = position_;
            return Errc::ok;
        }
        record = {word.channel,
                  word.kind,
                  word.credit,
                  is_new,
                  word.frame,
                  held_.add(start),
                  {memory_ + at + ring::kWordBytes, word.length}};
        return Errc::ok;
    }

    Errc begin_batch(Record& record, const ring::Word0& batch, bool is_new) noexcept {
        batch_left_ = batch.length;
        batch_at_ = offset() + ring::kWordBytes;
        batch_credit_ = batch.credit;
        const std::uint64_t end = position_ + ring::slot_bytes(batch.length);
        if (seen_ < end) seen_ = end;
        // An empty batch is against the format.
        const Errc error = batch_left_ != 0 ? next_of_batch(record) : Errc::protocol_error;
        record.is_new = is_new;
        return error;
    }
    // The next message of the batch at position_. The last one gives the space of all back.
    [[gnu::always_inline]] Errc next_of_batch(Record& record) noexcept {
        const ring::Word0 word = ring::Word0::from(load(batch_at_));
        const std::size_t bytes = ring::kWordBytes + ring::round_up(word.length, ring::kWordBytes);
        if (word.frame != ring::Frame::message || bytes > batch_left_) [[unlikely]]
            return Errc::protocol_error;
        const std::byte* const payload = memory_ + batch_at_ + ring::kWordBytes;
        const std::uint64_t start = position_;  // of the batch
        batch_at_ += bytes;
        batch_left_ -= bytes;
        // No record begins before it ends, so this is where the next one does.
        if (batch_left_ == 0) [[unlikely]]
            move_by(ring::round_up(batch_at_ + ring::kWordBytes, ring::kAlignment) - offset());
        record = {word.channel, word.kind,        batch_credit_,         false,
                  word.frame,   held_.add(start), {payload, word.length}};
        return Errc::ok;
    }

    // A record that was not seen is seen now; also where the peer changed it after it was.
    void pass(std::size_t bytes) noexcept {
        move_by(bytes);
        if (seen_ < position_) seen_ = position_;
    }
    void move_by(std::size_t bytes) noexcept {
        position_ += bytes;
        tag_ = ring::tag(key_, position_);
    }

    const std::byte* memory_;
    std::size_t mask_;
    std::uint64_t key_;
    std::uint64_t position_ = 0;  // of the next record
    std::uint64_t tag_;           // of position_
    std::uint64_t consumed_ = 0;
    std::uint64_t seen_ = 0;  // at least position_: every record before it was looked at
    // Of the batch at position_: bytes not handed out, where they are in the ring, its credit.
    std::size_t batch_left_ = 0, batch_at_ = 0;
    std::uint32_t batch_credit_ = 0;
    HeldRecords held_;
};

}  // namespace verbatim
