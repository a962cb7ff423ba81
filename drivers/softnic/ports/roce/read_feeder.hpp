// The read feeder makes frames of a requester's reads, one for each packet of their responses.
// Packets that were answered before are asked for again by frames that count no further.
// Owner: the packet feeder. Threads: the one inside the flow's gate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../tcp/request_feeder.hpp"
#include "packets/packet.hpp"

namespace verbatim::softnic {

// The opcode of the packet that carries a result of these frames, or of an atomic operation.
PacketOpcode opcode_of(const FrameHeader& result) noexcept;

class ReadFeeder {
  public:
    using Fed = RequestFeeder::Fed;
    // `feeder` outlives this; `mtu` in bytes.
    ReadFeeder(RequestFeeder& feeder, std::size_t mtu) noexcept : feeder_(feeder), mtu_(mtu) {}

    // The last number of a response with these bytes: one of no bytes has a packet, too.
    std::uint64_t last_of(std::uint64_t first, std::uint64_t bytes) const noexcept;
    // Which packets of a response are asked for: those that were not taken yet; all.
    enum class Asks : std::uint8_t { rest, all };
    // A request whose response begins with this number: the next one, or one of before. Then
    // go_on() is to be called until all is asked for. Later: begin() is. Malformed: it was another
    // one before.
    Fed begin(const RemoteHeader& request, std::uint64_t number, Asks asks) noexcept;
    bool unfed() const noexcept { return left_ != 0; }
    // Dropped: there is no room behind a message that waits, or nothing is received any more.
    Fed go_on() noexcept;

    // The oldest read of no bytes, which the responder need not see; 0: there is none.
    std::uint64_t oldest_empty() const noexcept {
        return empties_begun_ == empties_answered_ ? 0 : empties_[empties_answered_ % kEmpties];
    }
    void answer_empty() noexcept { ++empties_answered_; }

  private:
    static constexpr std::size_t kEmpties = 32;

    Fed begin_empty(std::uint64_t number) noexcept;
    Fed feed(std::uint32_t bytes, std::uint8_t flags) noexcept;

    RequestFeeder& feeder_;
    const std::size_t mtu_;
    std::uint64_t first_ = 0, last_ = 0;    // of the newest request
    std::uint64_t begin_ = 0;               // where the response at hand begins
    std::uint64_t next_ = 0, address_ = 0;  // of it: what is asked for next
    std::uint32_t key_ = 0, left_ = 0;      // likewise
    std::array<std::uint64_t, kEmpties> empties_{};
    std::uint64_t empties_begun_ = 0, empties_answered_ = 0;
};

}  // namespace verbatim::softnic
