// The packets of a requester, kept until the responder has acknowledged them: what is lost is sent
// again from here, so no work request is read twice. One producer, the thread inside the send gate;
// one consumer, the thread inside the flow's gate.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../tcp/byte_ring.hpp"
#include "packets/packet.hpp"

namespace verbatim::softnic {

// A packet without its base header: extended headers and payload follow it in the ring.
struct KeptPacket {
    std::uint64_t number = 0;   // its first one
    std::uint32_t numbers = 1;  // of a read: packets of the response
    std::uint16_t bytes = 0;    // that follow
    PacketOpcode opcode{};
    bool solicited = false;

    std::uint64_t last() const noexcept { return number + numbers - 1; }
};
static_assert(sizeof(KeptPacket) == 16);

class RequestPackets {
  public:
    static constexpr std::size_t kBytes = std::size_t{256} << 10;

    RequestPackets() : ring_(kBytes) {}  // throws std::bad_alloc

    // The producer: whether a packet of that many bytes fits; the header of another one, whose last
    // number this returns; its bytes; what was begun may be sent.
    bool fits(std::size_t bytes) const noexcept {
        return kBytes - (written_ - released_.load(std::memory_order_acquire)) >=
               sizeof(KeptPacket) + bytes;
    }
    std::uint64_t next_number() const noexcept { return numbers_ + 1; }
    std::uint64_t begin(KeptPacket packet) noexcept {
        packet.number = numbers_ + 1;
        numbers_ = packet.last();
        add(&packet, sizeof packet);
        return numbers_;
    }
    void add(const void* from, std::size_t bytes) noexcept {
        ring_.put(written_, from, bytes);
        written_ += bytes;
    }
    // Before what was begun is committed, or afterwards: somebody waits until it is acknowledged.
    // False: that was said.
    bool await() noexcept {
        if (awaited_.load(std::memory_order_relaxed) == numbers_) return false;
        awaited_.store(numbers_, std::memory_order_release);
        return true;
    }
    void commit() noexcept { committed_.store(written_, std::memory_order_release); }

    // The consumer. The next packet to be sent, and its bytes. False: there is none.
    bool next(KeptPacket& packet, Gathered& body) const noexcept { return at(sent_, packet, body); }
    void note_sent(const KeptPacket& packet) noexcept {
        sent_ += sizeof packet + packet.bytes;
        ++in_flight_;
        if (packet.last() > most_) most_ = packet.last();
    }
    bool unsent() const noexcept { return sent_ != committed_.load(std::memory_order_acquire); }
    // The oldest one that is kept. False: there is none that was sent.
    bool oldest(KeptPacket& packet, Gathered& body) const noexcept {
        const std::uint64_t oldest = released_.load(std::memory_order_relaxed);
        return oldest != sent_ && at(oldest, packet, body);
    }
    std::uint32_t in_flight() const noexcept { return in_flight_; }
    // Somebody waits for packets up to this number.
    std::uint64_t awaited() const noexcept { return awaited_.load(std::memory_order_acquire); }
    // The last number that was ever sent.
    std::uint64_t most() const noexcept { return most_; }
    // Packets up to this number, which was sent, need not be kept any more.
    void release(std::uint64_t number) noexcept;
    // All that is kept is sent again.
    void rewind() noexcept {
        sent_ = released_.load(std::memory_order_relaxed);
        in_flight_ = 0;
    }

  private:
    bool at(std::uint64_t position, KeptPacket& packet, Gathered& body) const noexcept;

    ByteRing ring_;
    std::uint64_t written_ = 0, numbers_ = 0;  // the producer's
    std::atomic<std::uint64_t> committed_{0}, released_{0}, awaited_{0};
    std::uint64_t sent_ = 0, most_ = 0;  // the consumer's
    std::uint32_t in_flight_ = 0;        // packets between released_ and sent_
};

}  // namespace verbatim::softnic
