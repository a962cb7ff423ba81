// Claims are slots of the peer's ring that a program fills in place, in the mirror. Several may be
// open; their records are posted in the order of the claims, each once it and all before it are
// closed. What a closed claim does not use is skipped by a pad.
// Threads: the lane's. Data path: no allocation, lock, system call or exception.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ring_sender.hpp"

namespace verbatim {

class RingClaims {
  public:
    static constexpr std::uint32_t kMost = 8;

    explicit RingClaims(RingSender& sender) : sender_(sender) {}

    bool empty() const noexcept { return first_ == end_; }
    // settle() can get on.
    bool has_closed() const noexcept { return !empty() && at(first_).closed; }
    // Messages wait, perhaps behind a claim that is open.
    bool has_messages() const noexcept {
        for (std::uint32_t number = first_; number != end_; ++number)
            if (at(number).closed && !at(number).empty) return true;
        return false;
    }

    // Claims room for a payload of so many bytes behind all claims. Fills in `message`, whose
    // payload is empty, and returns the claim's number. would_block: no room in the ring or the
    // send queue, or kMost are under way. message_too_large.
    struct Place {
        std::uint32_t number = 0;
        std::byte* payload = nullptr;
    };
    Errc try_claim(const OutgoingMessage& message, std::size_t bytes, Place& place) noexcept {
        if (bytes > sender_.max_payload()) return Errc::message_too_large;
        if (end_ - first_ == kMost) return Errc::would_block;
        const std::size_t slot = ring::slot_bytes(bytes);
        if (empty()) {
            if (sender_.at().is_at_turn(slot))
                if (const Errc error = sender_.turn(slot); error != Errc::ok) return error;
            next_ = sender_.sent();
        }
        const std::size_t to_end = sender_.at().to_end(next_), before = slot > to_end ? to_end : 0;
        if (!sender_.at().has_room_until(next_ + before + slot)) return Errc::would_block;
        place = {end_, sender_.payload_at(next_ + before)};
        at(end_++) = {.before = static_cast<std::uint32_t>(before),
                      .bytes = static_cast<std::uint32_t>(slot),
                      .channel = message.channel,
                      .kind = message.kind,
                      .frame = message.frame};
        next_ += before + slot;
        return Errc::ok;
    }

    // Closes a claim, with `used` of its bytes filled. No effect on one that is not open.
    void commit(std::uint32_t number, std::size_t used) noexcept { close(number, used, false); }
    // Closes a claim whose message is not sent.
    void abandon(std::uint32_t number) noexcept { close(number, 0, true); }
    void abandon_all() noexcept {
        for (std::uint32_t number = end_; number != first_; --number) abandon(number - 1);
    }

    // Posts what can be posted. ok: nothing is left, or the first claim is open. would_block: the
    // send queue is full; again later. `told`: the credit went with a message; a pad carries none.
    // Errors: those of a post.
    Errc settle(std::uint32_t credit, bool& told) noexcept {
        for (; has_closed(); ++first_)
            if (const Errc error = post(at(first_), credit, told); error != Errc::ok) return error;
        return Errc::ok;
    }

  private:
    // Every connection has kMost of them.
    struct Slot {
        std::uint32_t before = 0;  // bytes to skip: the rest of the lap
        std::uint32_t bytes = 0;   // of the ring
        std::uint32_t used = 0;    // of the payload
        std::uint8_t channel = 0, kind = 0;
        ring::Frame frame = ring::Frame::message;
        bool closed = false, empty = false;
    };
    static_assert(ring::kMaxRing <= std::numeric_limits<std::uint32_t>::max());

    Slot& at(std::uint32_t number) noexcept { return slots_[number % kMost]; }
    const Slot& at(std::uint32_t number) const noexcept { return slots_[number % kMost]; }

    void close(std::uint32_t number, std::size_t used, bool abandoned) noexcept {
        if (number - first_ >= end_ - first_ || at(number).closed) return;
        Slot& slot = at(number);
        slot.closed = true;
        slot.used = static_cast<std::uint32_t>(used);
        slot.empty = abandoned;
        if (number + 1 != end_) return;
        // Nothing is behind it: it takes no more than it uses.
        const auto wanted = abandoned ? 0 : static_cast<std::uint32_t>(ring::slot_bytes(used));
        next_ -= slot.bytes - wanted;
        slot.bytes = wanted;
        if (!abandoned) return;
        next_ -= slot.before;
        --end_;
    }

    // In three steps, each of which may find the queue full.
    Errc post(Slot& slot, std::uint32_t credit, bool& told) noexcept {
        if (const Errc error = skip(slot.before); error != Errc::ok) return error;
        if (!slot.empty) {
            const Errc error = sender_.send_filled(
                {.channel = slot.channel, .kind = slot.kind, .frame = slot.frame}, slot.used,
                credit);
            if (error != Errc::ok) return error;
            told = true;
            ++sender_.counts().claims;
            sender_.counts().claimed_bytes += slot.used;
            slot.bytes -= static_cast<std::uint32_t>(ring::slot_bytes(slot.used));
            slot.empty = true;
        }
        return skip(slot.bytes);
    }
    Errc skip(std::uint32_t& bytes) noexcept {
        while (bytes != 0) {
            const auto piece = std::min(bytes, static_cast<std::uint32_t>(ring::kLongestPad));
            if (const Errc error = sender_.skip(piece); error != Errc::ok) return error;
            bytes -= piece;
        }
        return Errc::ok;
    }

    RingSender& sender_;
    std::array<Slot, kMost> slots_;
    std::uint32_t first_ = 0, end_ = 0;  // numbers of the claims under way
    std::uint64_t next_ = 0;             // position behind the last one, while there is any
};

}  // namespace verbatim
