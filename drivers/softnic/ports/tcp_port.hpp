// The port to a peer that is reached by a TCP stream: on another host, of another user, or in
// another container. Requests become numbered frames, whose numbers are the tickets; the responder
// judges keys and answers (docs/tcp-port.md). Owner: the queue pair's requester. Threads: as Port.
#pragma once

#include <cstddef>
#include <cstdint>

#include "port.hpp"
#include "tcp/fetches.hpp"
#include "tcp/peer_stream.hpp"

namespace verbatim::softnic {

class TcpPort final : public Port {
  public:
    // `stream` outlives this.
    explicit TcpPort(PeerStream& stream) noexcept
        : peer_(stream), fetches_(stream.stream().requests(), stream.stream().results()) {}

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept override;
    void begin_turn() noexcept override {}
    void end_turn() noexcept override;

    Ticket acknowledged() const noexcept override { return peer_.words().acknowledged(); }
    mlx5::Syndrome refused() const noexcept override {
        return static_cast<mlx5::Syndrome>(peer_.words().refused());
    }
    bool has_result(Ticket ticket) const noexcept override { return fetches_.has_result(ticket); }
    bool take_result(const PieceList& into) noexcept override { return fetches_.take_result(into); }
    bool waits_for_receive(Ticket ticket) const noexcept override {
        return peer_.words().waits() && ticket > acknowledged();
    }
    std::chrono::nanoseconds not_ready_for() const noexcept override {
        return peer_.words().not_ready_for();
    }
    void give_up() noexcept override;
    bool message_waits() const noexcept override { return peer_.words().waits(); }
    bool silent() const noexcept override { return peer_.words().silent(); }
    mlx5::Syndrome silence() const noexcept override;
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
    RequestFrames& frames() noexcept { return peer_.stream().requests(); }

    PeerStream& peer_;
    Fetches fetches_;
    std::uint64_t handed_over_ = 0;  // bytes of the request that waits
    bool begun_ = false;             // a part of it, though perhaps of no bytes
    bool news_ = false;              // frames were committed in this turn
    Ticket last_ = 0;                // number of the last frame that was begun here
};

}  // namespace verbatim::softnic
