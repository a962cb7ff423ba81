// An open batch gathers small messages into one record, which one write carries. It is built in
// the mirror, behind the last record. Nothing else may be written to the ring before it is posted.
// Threads: the lane's. Data path: no allocation, lock, system call or exception.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ring_sender.hpp"

namespace verbatim {

class RingBatch {
  public:
    explicit RingBatch(RingSender& sender) : sender_(sender) {}

    bool empty() const noexcept { return bytes_ == 0; }

    // Copies head and body. False: it is full, or no batch can hold the message here.
    bool try_add(const OutgoingMessage& message) noexcept {
        const std::size_t length = message.head.size() + message.body.size();
        if (length > kLongest || message.head.size() > kLongest) [[unlikely]]
            return false;
        if (bytes_ == 0) most_ = std::min(kMostBytes, sender_.batch_room());
        const std::size_t padded = ring::round_up(length, ring::kWordBytes);
        if (bytes_ + ring::kWordBytes + padded > most_) return false;
        const std::uint64_t word = ring::Word0{.length = static_cast<std::uint32_t>(length),
                                               .channel = message.channel,
                                               .kind = message.kind}
                                       .raw();
        std::byte* const at = sender_.payload_at(sender_.sent()) + bytes_;
        std::memcpy(at, &word, sizeof word);
        fill(at + ring::kWordBytes, padded, message);
        bytes_ += ring::kWordBytes + padded;
        ++sender_.counts().batched;
        sender_.counts().batched_bytes += length;
        return true;
    }

    // Posts what was gathered; not when empty. `credit`: as RingSender has it. Errors: those of a
    // post; it stays open then.
    Errc post(std::uint32_t credit) noexcept {
        const Errc error = sender_.send_filled({.frame = ring::Frame::batch}, bytes_, credit);
        if (error != Errc::ok) return error;
        bytes_ = 0;
        ++sender_.counts().batches;
        return error;
    }

  private:
    // Of messages and of a batch: beyond, a write of its own costs little beside the copy.
    static constexpr std::size_t kLongest = 256, kMostBytes = 2048;

    static void fill(std::byte* to, std::size_t padded, const OutgoingMessage& message) noexcept {
        if (padded == 0) return;
        // The padding is sent: it must not show old bytes.
        std::memset(to + padded - ring::kWordBytes, 0, ring::kWordBytes);
        if (!message.head.empty()) std::memcpy(to, message.head.data(), message.head.size());
        if (!message.body.empty())
            std::memcpy(to + message.head.size(), message.body.data(), message.body.size());
    }

    RingSender& sender_;
    std::size_t bytes_ = 0;  // of the messages in it
    std::size_t most_ = 0;   // that it may hold
};

}  // namespace verbatim
