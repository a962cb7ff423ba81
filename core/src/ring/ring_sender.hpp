// The sending end of a message ring: builds records and writes each with one RDMA write into the
// peer's memory. Small records travel inside the work request (the smallest through a prepared
// one); larger ones are built in a mirror of the peer's ring, in registered local memory at the
// same offset, and written from there. A mirror slot is free exactly when the ring slot is: the
// peer consumed it, so the device has read it. Threads: the lane's. Data
// path: no allocation, lock, system call or exception.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "../queue/send_path.hpp"
#include "ring_format.hpp"
#include "send_counts.hpp"
#include "send_positions.hpp"

namespace verbatim {

// A ring in the peer's memory, and the local memory that mirrors it.
struct RemoteRing {
    std::uint64_t address = 0, bytes = 0;
    std::uint32_t remote_key = 0;
    std::uint64_t tag_key = 0;     // the peer drew it
    std::byte* mirror = nullptr;   // `bytes` of it
    std::uint32_t mirror_key = 0;  // local key
};

// The parts of a message: its channel and kind, and two pieces of payload that become one.
struct OutgoingMessage {
    std::uint8_t channel = 0;
    std::uint8_t kind = 0;  // below ring::kKinds
    std::span<const std::byte> head, body;
    ring::Frame frame = ring::Frame::message;  // or fragment, batch
};

class RingSender {
  public:
    RingSender(SendPath& path, const RemoteRing& ring)
        : path_(path),
          ring_(ring),
          at_(ring.bytes),
          empty_(small_write<16>(path, ring)),
          small_(small_write<24>(path, ring)) {}

    // Copies head and body into one record. `credit`: this side's consumed position of the other
    // direction. would_block: no room in the peer's ring (blocked_by_peer()) or in the send queue.
    // message_too_large.
    Errc try_send(const OutgoingMessage& message, std::uint32_t credit) noexcept {
        const std::size_t length = message.head.size() + message.body.size();
        if (length > max_payload() || message.head.size() > length) [[unlikely]]
            return Errc::message_too_large;
        const std::size_t slot = ring::slot_bytes(length);
        if (at_.is_at_turn(slot)) [[unlikely]]
            if (const Errc error = turn(slot); error != Errc::ok) return error;
        if (!at_.has_room(slot)) [[unlikely]]
            return Errc::would_block;
        const ring::Word0 word{static_cast<std::uint32_t>(length), message.channel, message.kind,
                               message.frame, credit};
        const Errc error = write(word, message.head, message.body);
        if (error == Errc::ok) [[likely]] {
            advance(slot);
            ++counts_.records;
            counts_.record_bytes += length;
        }
        return error;
    }

    // Batches and claims (ring_batch.hpp, ring_claims.hpp) are filled at payload_at() their
    // position; a batch at sent(), in at most so many bytes.
    std::size_t batch_room() const noexcept {
        const std::size_t room = at_.room();
        return room < ring::kOverhead ? 0 : std::min(room - ring::kOverhead, max_payload());
    }
    std::byte* payload_at(std::uint64_t position) const noexcept {
        return ring_.mirror + at_.offset_of(position) + ring::kWordBytes;
    }
    const SendPositions& at() const noexcept { return at_; }
    // Before a record, or the first of many claims, that takes `slot` bytes: ends the lap, where it
    // does not fit or where the ring's beginning is free. would_block: no room in either ring.
    [[gnu::noinline]] Errc turn(std::size_t slot) noexcept {
        const SendPositions::Turn turn = at_.turn(slot);
        if (!turn.fits) return Errc::would_block;
        if (turn.skip == 0) return Errc::ok;
        const Errc error = skip(turn.skip);
        if (error == Errc::ok) at_.turned(turn);
        return error;
    }
    // Skips what the peer has yet to read, where there is room behind it. would_block: there is
    // not. Nothing else may be under way.
    [[gnu::noinline]] Errc pass_unread() noexcept {
        const std::size_t bytes = at_.unread();
        const Errc error = bytes == 0 ? Errc::would_block : skip(bytes);
        if (error == Errc::ok) at_.passed();
        return error;
    }
    // The payload lies in the mirror, at sent(). Errors: those of a post, as the next.
    Errc send_filled(const OutgoingMessage& message, std::size_t length,
                     std::uint32_t credit) noexcept {
        const std::size_t padded = ring::round_up(length, ring::kWordBytes);
        std::memset(payload_at(sent()) + length, 0, padded - length);
        const ring::Word0 word{static_cast<std::uint32_t>(length), message.channel, message.kind,
                               message.frame, credit};
        return send_built(word, padded);
    }
    // A pad of so many bytes: a multiple of the alignment, within the lap.
    Errc skip(std::size_t bytes) noexcept {
        const std::array<std::uint64_t, 2> record{
            ring::Word0{.length = static_cast<std::uint32_t>(bytes), .frame = ring::Frame::pad}
                .raw(),
            tag_};
        const Errc error = write_inline(std::as_bytes(std::span(record)));
        if (error == Errc::ok) {
            advance(bytes);
            ++counts_.pads;
        }
        return error;
    }

    // The peer says it consumed everything before `position`. Old news is ignored; protocol_error:
    // more than was sent.
    Errc take_position(std::uint64_t position) noexcept {
        return gain(static_cast<std::int64_t>(position - at_.consumed()));
    }
    Errc take_credit(std::uint32_t truncated) noexcept {
        return gain(ring::credit_gain(truncated, at_.consumed()));
    }

    std::size_t max_payload() const noexcept { return ring::max_payload(ring_.bytes); }
    std::uint64_t sent() const noexcept { return at_.sent(); }
    // What it has sent, and its batches and claims, which count themselves.
    SendCounts& counts() noexcept { return counts_; }

  private:
    template <std::uint32_t kBytes>
    using Small = PreparedPost<mlx5::Prepared<mlx5::Opcode::write, mlx5::Inline<kBytes>>>;

    template <std::uint32_t kBytes>
    static Small<kBytes> small_write(SendPath& path, const RemoteRing& ring) {
        return {{path.queue(), {.opcode = mlx5::Opcode::write, .remote_key = ring.remote_key}}};
    }

    std::size_t offset() const noexcept { return at_.offset_of(sent()); }
    void advance(std::size_t slot) noexcept {
        at_.advance(slot);
        tag_ = ring::tag(ring_.tag_key, sent());
    }

    // Of a record whose payload, padded to so many bytes, lies in the mirror.
    Errc send_built(ring::Word0 word, std::size_t padded) noexcept {
        const std::uint64_t raw = word.raw();
        std::byte* const record = ring_.mirror + offset();
        std::memcpy(record, &raw, sizeof raw);
        std::memcpy(record + ring::kWordBytes + padded, &tag_, sizeof tag_);
        const std::size_t bytes = padded + ring::kOverhead;
        const bool is_short =
            bytes <= std::min<std::size_t>(path_.queue().limits().max_inline_bytes, kLargestInline);
        const Errc error =
            is_short ? write_inline({record, bytes}) : write_from_mirror(record, bytes);
        if (error == Errc::ok) [[likely]]
            advance(ring::round_up(bytes, ring::kAlignment));
        return error;
    }

    Errc write(ring::Word0 word, std::span<const std::byte> head,
               std::span<const std::byte> body) noexcept {
        if (word.length <= 8) return write_small(word, head, body);
        const std::size_t bytes = ring::record_bytes(word.length);
        if (bytes <= path_.queue().limits().max_inline_bytes) {
            alignas(16) std::array<std::byte, kLargestInline> record;
            if (bytes <= record.size()) {
                build(record.data(), word, head, body);
                return write_inline(std::span(record).first(bytes));
            }
        }
        std::byte* record = ring_.mirror + offset();
        build(record, word, head, body);
        return write_from_mirror(record, bytes);
    }

    // One building block: control and address segments, inline header, record.
    Errc write_small(ring::Word0 word, std::span<const std::byte> head,
                     std::span<const std::byte> body) noexcept {
        std::array<std::uint64_t, 3> record{word.raw(), 0, tag_};
        auto* payload = reinterpret_cast<std::byte*>(&record[1]);
        if (!head.empty()) std::memcpy(payload, head.data(), head.size());
        if (!body.empty()) std::memcpy(payload + head.size(), body.data(), body.size());
        if (word.length == 0) record[1] = tag_;
        const auto* const bytes = reinterpret_cast<const std::byte*>(record.data());
        const std::uint64_t to = ring_.address + offset();
        return word.length == 0 ? path_.post(empty_, to, bytes) : path_.post(small_, to, bytes);
    }

    Errc write_inline(std::span<const std::byte> record) noexcept {
        mlx5::WorkRequest request{.opcode = mlx5::Opcode::write,
                                  .remote_address = ring_.address + offset(),
                                  .remote_key = ring_.remote_key,
                                  .inline_payload = record};
        return path_.post(request);
    }

    Errc write_from_mirror(const std::byte* record, std::size_t bytes) noexcept {
        const mlx5::Element element{reinterpret_cast<std::uint64_t>(record),
                                    static_cast<std::uint32_t>(bytes), ring_.mirror_key};
        mlx5::WorkRequest request{.opcode = mlx5::Opcode::write,
                                  .remote_address = ring_.address + offset(),
                                  .remote_key = ring_.remote_key,
                                  .elements = {&element, 1}};
        return path_.post(request);
    }

    void build(std::byte* record, ring::Word0 word, std::span<const std::byte> head,
               std::span<const std::byte> body) const noexcept {
        const std::uint64_t raw = word.raw();
        const std::size_t padded = ring::round_up(word.length, ring::kWordBytes);
        std::memcpy(record, &raw, sizeof raw);
        std::byte* payload = record + ring::kWordBytes;
        // The padding is sent: it must not show old bytes.
        if (padded != word.length)
            std::memset(payload + padded - ring::kWordBytes, 0, ring::kWordBytes);
        if (!head.empty()) std::memcpy(payload, head.data(), head.size());
        if (!body.empty()) std::memcpy(payload + head.size(), body.data(), body.size());
        std::memcpy(payload + padded, &tag_, sizeof tag_);
    }

    Errc gain(std::int64_t bytes) noexcept {
        if (bytes <= 0) return Errc::ok;
        return at_.gain(static_cast<std::uint64_t>(bytes)) ? Errc::ok : Errc::protocol_error;
    }

    static constexpr std::size_t kLargestInline = 256;

    SendPath& path_;
    SendCounts counts_;
    RemoteRing ring_;
    SendPositions at_;                                 // in the peer's ring
    std::uint64_t tag_ = ring::tag(ring_.tag_key, 0);  // of sent()
    Small<16> empty_;                                  // a record without payload
    Small<24> small_;                                  // one of up to 8 bytes
};

}  // namespace verbatim
