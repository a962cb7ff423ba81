// Packets on their way out: a batch that one system call sends. What a back end does not take is
// lost, as on any wire. Owner: the flow. Threads: the one inside its gate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "../tcp/byte_ring.hpp"
#include "back_end/packet_back_end.hpp"
#include "packets/packet.hpp"
#include "packets/packet_checksum.hpp"

namespace verbatim::softnic {

class PacketOutput {
  public:
    struct Head {
        PacketOpcode opcode{};
        bool solicited = false, asks = false;
        std::uint32_t sequence = 0;
    };

    PacketOutput(const PacketOutput&) = delete;
    PacketOutput& operator=(const PacketOutput&) = delete;
    // `queue_pair`: the peer's.
    PacketOutput(PacketBackEnd& back_end, const PacketChecksum& checksum,
                 std::uint32_t queue_pair) noexcept
        : back_end_(back_end),
          checksum_(checksum),
          queue_pair_(queue_pair),
          runs_(back_end.sends_runs()) {}

    // A packet whose extended headers and payload stay where they are until flush().
    void add(const Head& head, const Gathered& body) noexcept;
    // One with a short extended header and nothing behind it.
    template <class Header>
    void add(const Head& head, const Header& extended) noexcept {
        finish(begin(head, extended), 0);
    }
    // Both: such a header, and a payload that stays where it is.
    template <class Header>
    void add(const Head& head, const Header& extended, const Gathered& payload) noexcept {
        put(begin(head, extended), payload);
    }
    void flush() noexcept;
    // Packets so far.
    std::uint64_t count() const noexcept { return count_; }

  private:
    struct Slot {
        BaseHeader base;
        std::array<std::byte, sizeof(NoticeHeader)> extended;  // the longest of those
        std::array<std::byte, 2 * kChecksumBytes> trailer;     // padding and checksum
        std::array<iovec, 5> pieces;
        std::size_t count = 0;
    };
    static constexpr std::size_t kSlots = 32;

    Slot& begin(const Head& head) noexcept;
    template <class Header>
    Slot& begin(const Head& head, const Header& extended) noexcept {
        static_assert(sizeof extended <= sizeof(Slot::extended));
        Slot& slot = begin(head);
        __builtin_memcpy(slot.extended.data(), &extended, sizeof extended);
        slot.pieces[slot.count++] = {slot.extended.data(), sizeof extended};
        return slot;
    }
    void put(Slot& slot, const Gathered& body) noexcept;
    void finish(Slot& slot, std::size_t padding) noexcept;
    std::uint16_t place_in_run(std::size_t datagram_bytes) noexcept;

    PacketBackEnd& back_end_;
    const PacketChecksum checksum_;
    const std::uint32_t queue_pair_;
    bool runs_;  // of the next packets
    std::uint16_t next_in_run_ = 0;
    std::size_t used_ = 0;
    std::uint64_t count_ = 0;
    std::array<Slot, kSlots> slots_;
    std::array<PacketPieces, kSlots> packets_;  // the pieces of each
};

}  // namespace verbatim::softnic
