// The port to a peer that is reached by RoCEv2 packets over UDP. Requests become packets, whose
// numbers are the tickets; the responder judges keys and answers (docs/roce-port.md). Owner: the
// queue pair's requester. Threads: as Port.
#pragma once

#include <cstddef>
#include <cstdint>

#include "roce/packet_fetches.hpp"
#include "roce/packet_flow.hpp"
#include "wire_port.hpp"

namespace verbatim::softnic {

class RocePort final : public WirePort {
  public:
    // Both outlive this; `flow` is the peer's wire.
    RocePort(PeerStream& peer, PacketFlow& flow) noexcept
        : WirePort(peer, flow.results()),
          packets_(flow.requests()),
          fetches_(flow.requests(), flow.results(), fetched(), flow.mtu()),
          mtu_(flow.mtu()) {}

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept override;
    void end_turn() noexcept override;
    void await_last() noexcept override { news_ |= packets_.await(); }
    bool begun() const noexcept override { return begun_; }

  private:
    PortAnswer send(const PortRequest& request, const PieceList& bytes) noexcept;
    PortAnswer write(const PortRequest& request, const PieceList& bytes) noexcept;
    PortAnswer read(const PortRequest& request, const PieceList& into) noexcept;
    bool put_send(const PortRequest& request, const PieceList& bytes) noexcept;
    bool put_write(const PortRequest& request, const PieceList& bytes) noexcept;
    void put_payload(const PieceList& bytes, std::size_t count) noexcept;
    PortAnswer handed_over(Ticket ticket) noexcept;

    RequestPackets& packets_;
    PacketFetches fetches_;
    const std::size_t mtu_;
    std::uint64_t handed_over_ = 0;  // bytes of the request that waits
    std::uint64_t message_end_ = 0;  // of a write: where the message on its way ends
    bool begun_ = false;             // a part of it, though perhaps of no bytes
    bool news_ = false;              // in this turn: packets were committed, or are awaited
    Ticket last_ = 0;                // number of the last packet
};

}  // namespace verbatim::softnic
