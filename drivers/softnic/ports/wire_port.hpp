// What ports have in common whose peers answer over a wire: the peer's words, and the results of
// reads and atomic operations. Owner: the queue pair's requester. Threads: as Port.
#pragma once

#include "port.hpp"
#include "tcp/fetches.hpp"
#include "tcp/peer_stream.hpp"

namespace verbatim::softnic {

class WirePort : public Port {
  public:
    // Both outlive this.
    WirePort(PeerStream& peer, ReadResults& results) noexcept : peer_(peer), fetched_(results) {}

    void begin_turn() noexcept override {}
    Ticket acknowledged() const noexcept override { return peer_.words().acknowledged(); }
    mlx5::Syndrome refused() const noexcept override {
        return static_cast<mlx5::Syndrome>(peer_.words().refused());
    }
    bool has_result(Ticket ticket) const noexcept override { return fetched_.has_result(ticket); }
    bool take_result(const PieceList& into) noexcept override { return fetched_.take_result(into); }
    bool waits_for_receive(Ticket ticket) const noexcept override {
        return peer_.words().waits() && ticket > acknowledged();
    }
    std::uint64_t tries(std::chrono::nanoseconds waited) const noexcept override {
        const std::uint32_t counted = peer_.words().tries();
        return counted != 0 ? counted : tries_in(waited, peer_.words().not_ready_for());
    }
    void give_up() noexcept override {
        peer_.wire().give_up();
        peer_.flush();
    }
    bool message_waits() const noexcept override { return peer_.words().waits(); }
    bool silent() const noexcept override { return peer_.words().silent(); }
    mlx5::Syndrome silence() const noexcept override {
        const mlx5::Syndrome syndrome = refused();
        return begun() && syndrome != kNoSyndrome ? syndrome : mlx5::Syndrome::retry_exceeded;
    }

  protected:
    void flush() noexcept { peer_.flush(); }
    FetchList& fetched() noexcept { return fetched_; }

  private:
    PeerStream& peer_;
    FetchList fetched_;
};

}  // namespace verbatim::softnic
