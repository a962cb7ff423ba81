// The port to a peer that is reached by a TCP stream: on another host, of another user, or in
// another container. Requests become numbered frames, whose numbers are the tickets; the responder
// judges keys and answers (docs/tcp-port.md). Owner: the queue pair's requester. Threads: as Port.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tcp/stream.hpp"
#include "wire_port.hpp"

namespace verbatim::softnic {

class TcpPort final : public WirePort {
  public:
    // Both outlive this; `stream` is the peer's wire.
    TcpPort(PeerStream& peer, Stream& stream) noexcept
        : WirePort(peer, stream.results()),
          frames_(stream.requests()),
          fetches_(stream.requests(), stream.results(), fetched()) {}

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept override;
    void end_turn() noexcept override;
    bool begun() const noexcept override { return handed_over_ != 0 || begun_; }

  private:
    PortAnswer send(const PortRequest& request, const PieceList& bytes) noexcept;
    PortAnswer write(const PortRequest& request, const PieceList& bytes) noexcept;
    PortAnswer read(const PortRequest& request, const PieceList& into) noexcept;
    PortAnswer atomic(const RemoteAtomic& operation) noexcept;
    bool put_write(const PortRequest& request, const PieceList& bytes) noexcept;
    void begin(FrameKind kind, std::size_t bytes, std::uint8_t flags = 0) noexcept;
    void add_payload(const PieceList& bytes, std::size_t count) noexcept;
    void commit() noexcept;
    PortAnswer handed_over(Ticket ticket) noexcept;
    RequestFrames& frames() noexcept { return frames_; }

    RequestFrames& frames_;
    Fetches fetches_;
    std::uint64_t handed_over_ = 0;  // bytes of the request that waits
    bool begun_ = false;             // a part of it, though perhaps of no bytes
    bool news_ = false;              // frames were committed in this turn
    Ticket last_ = 0;                // number of the last frame that was begun here
};

}  // namespace verbatim::softnic
