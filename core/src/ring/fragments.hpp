// Fragments carry a message that is longer than a record, one such message at a time: docs/wire.md.
// Threads: the lane's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include <verbatim/driver/error.hpp>

#include "ring_receiver.hpp"
#include "ring_sender.hpp"

namespace verbatim {

// Precedes the bytes of each fragment.
struct FragmentHead {
    std::uint64_t total = 0;   // bytes of the message
    std::uint64_t offset = 0;  // of this fragment's first byte; 0 begins a message
};

// A message on its way out. Head and body stay valid until it is_over().
class OutgoingFragments {
  public:
    explicit OutgoingFragments(const OutgoingMessage& message)
        : message_(message), head_{message.head.size() + message.body.size(), 0} {}

    bool is_over() const noexcept { return head_.offset == head_.total; }
    // The next fragment, for a record of at most so many bytes of payload; valid until advance().
    OutgoingMessage next(std::size_t most) noexcept {
        const std::size_t in_head = message_.head.size();
        std::span<const std::byte> piece = head_.offset < in_head
                                               ? message_.head.subspan(head_.offset)
                                               : message_.body.subspan(head_.offset - in_head);
        piece = piece.first(std::min(piece.size(), most - sizeof head_));
        piece_ = piece.size();
        return {message_.channel, message_.kind, std::as_bytes(std::span(&head_, 1)), piece,
                ring::Frame::fragment};
    }
    // It was accepted.
    void advance() noexcept { head_.offset += piece_; }

  private:
    OutgoingMessage message_;
    FragmentHead head_;
    std::size_t piece_ = 0;
};

// A message that is coming in. What a peer can make this side keep: `longest` bytes.
class IncomingFragments {
  public:
    explicit IncomingFragments(std::uint64_t longest) noexcept : longest_(longest) {}

    // Takes the bytes of a record. A first fragment drops what was there: its sender gave up.
    // protocol_error: it does not continue the message, or is beyond the bound. out_of_memory.
    Errc add(const Record& record) noexcept {
        FragmentHead head;
        if (record.payload.size() <= sizeof head) return Errc::protocol_error;
        std::memcpy(&head, record.payload.data(), sizeof head);
        const std::span piece = record.payload.subspan(sizeof head);
        if (head.offset == 0)
            if (const Errc error = begin(head.total, record); error != Errc::ok) return error;
        if (memory_ == nullptr || head.total != total_ || head.offset != filled_ ||
            piece.size() > total_ - filled_ || record.channel != channel_ || record.kind != kind_)
            return Errc::protocol_error;
        std::memcpy(memory_.get() + filled_, piece.data(), piece.size());
        filled_ += piece.size();
        return Errc::ok;
    }
    bool is_begun() const noexcept { return memory_ != nullptr && filled_ != total_; }
    bool is_whole() const noexcept { return memory_ != nullptr && filled_ == total_; }
    std::uint8_t channel() const noexcept { return channel_; }
    std::uint8_t kind() const noexcept { return kind_; }
    std::size_t size() const noexcept { return total_; }
    // Once it is whole: its bytes, which become the caller's.
    std::byte* take() noexcept { return memory_.release(); }

  private:
    Errc begin(std::uint64_t total, const Record& record) noexcept {
        if (total > longest_) return Errc::protocol_error;
        memory_.reset();
        // The kernel gives pages as they are filled.
        memory_.reset(new (std::nothrow) std::byte[total]);
        total_ = total;
        filled_ = 0;
        channel_ = record.channel;
        kind_ = record.kind;
        return memory_ == nullptr ? Errc::out_of_memory : Errc::ok;
    }

    std::uint64_t longest_;
    std::unique_ptr<std::byte[]> memory_;
    std::uint64_t total_ = 0, filled_ = 0;
    std::uint8_t channel_ = 0, kind_ = 0;
};

}  // namespace verbatim
