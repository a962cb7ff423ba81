// The way of a queue pair's requests to its peer. The requester turns a work request into one
// PortRequest and gives it to the port, in the order of posting; completions and their order are
// the requester's own business (completion_order.hpp).
//
// A port is reliable and ordered: requests take effect at the peer in the order in which post()
// took them, whatever kinds of memory they go to. Each ends in exactly one way:
//   done      it has taken effect; what it returns is in the request's memory already
//   accepted  it is on its way and has a ticket. Tickets grow from 1; the peer answers in their
//             order: the ticket is acknowledged, its result comes (take_result()), it is refused,
//             or it waits for a receive (receiver not ready) and is answered later
//   refused   the syndrome says why; the peer may have refused it, or this side in its place
//   waits     nothing is decided, though a part may have been handed over: post() is called again
//             with the same request, and with no other one before, unless the queue pair fails
// A peer that is lost answers nothing any more (silent()): tickets it had acknowledged stay so.
//
// Owner: the queue pair. Threads: the one inside the send gate, but for owes(), silent(),
// message_waits() and relies_on_peer(), which any thread may call. No member blocks, allocates or
// throws.
//
// The shm port (shm_port.hpp) judges keys by the peer's mapped table and copies by itself. On other
// ports the responder judges: their arrivals are given to it as records of a ring (channel.hpp), of
// which the port is the producer, and its answers are that ring's words. The tcp port
// (tcp_port.hpp) is such a one.
#pragma once

#include <chrono>
#include <cstdint>

#include <verbatim/mlx5/work_request.hpp>

#include "../../softqueue/failure_text.hpp"
#include "../keys/pieces.hpp"
#include "../rings/remote_atomic.hpp"

namespace verbatim::softnic {

using Ticket = std::uint64_t;  // 0: none

struct PortRequest {
    mlx5::Opcode opcode{};
    bool solicited = false;
    bool awaited = true;          // somebody waits until it is acknowledged
    std::uint32_t immediate = 0;  // as it travels: immediate, or the key to be invalidated
    std::uint32_t queue = 0;      // of XRC: the peer's shared receive queue; else 0
    // The peer's memory, as its key counts. Of atomic operations: in `atomic`.
    std::uint32_t key = 0;
    std::uint64_t address = 0;
    const RemoteAtomic* atomic = nullptr;
};

enum class PortOutcome : std::uint8_t { done, accepted, waits, refused };

struct PortAnswer {
    PortOutcome outcome = PortOutcome::done;
    mlx5::Syndrome syndrome = kNoSyndrome;  // of refused
    Ticket ticket = 0;                      // of accepted
};

inline constexpr PortAnswer kPortWaits{PortOutcome::waits, kNoSyndrome, 0};
constexpr PortAnswer refusal(mlx5::Syndrome syndrome) noexcept {
    return {PortOutcome::refused, syndrome, 0};
}

// Of a request that is sent once, and waits at the peer: as often as it would have been sent.
constexpr std::uint64_t tries_in(std::chrono::nanoseconds waited,
                                 std::chrono::nanoseconds one) noexcept {
    return one.count() <= 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(waited / one);
}

class Port {
  public:
    Port() = default;
    virtual ~Port() = default;
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    // `bytes`: what is sent, or where results go.
    virtual PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept = 0;
    // Around a turn of the requester: the first repeats wake-ups that failed, the second tells the
    // peer of the posted requests.
    virtual void begin_turn() noexcept = 0;
    virtual void end_turn() noexcept = 0;

    // Every ticket up to this one is answered well.
    virtual Ticket acknowledged() const noexcept = 0;
    // Why the ticket after those is refused, or none.
    virtual mlx5::Syndrome refused() const noexcept = 0;
    // Of the oldest read or atomic operation that was accepted and not taken; earlier tickets are
    // acknowledged. Whether something of its result has come; the second one copies that, and is
    // true once it was all.
    virtual bool has_result(Ticket ticket) const noexcept = 0;
    virtual bool take_result(const PieceList& into) noexcept = 0;
    // The ticket found no receive at the peer; how often it was tried, if it has `waited` so long;
    // nobody waits any longer.
    virtual bool waits_for_receive(Ticket ticket) const noexcept = 0;
    virtual std::uint64_t tries(std::chrono::nanoseconds waited) const noexcept = 0;
    virtual void give_up() noexcept = 0;
    // Of a queue pair that is ready.
    virtual bool message_waits() const noexcept = 0;
    // Somebody waits until all that was accepted is acknowledged.
    virtual void await_last() noexcept {}

    // The peer is gone, or in error: what it has not answered it will not.
    virtual bool silent() const noexcept = 0;
    // Of a silent peer: why the request that post() left waiting fails.
    virtual mlx5::Syndrome silence() const noexcept { return mlx5::Syndrome::retry_exceeded; }
    // A part of the request that waits was handed over.
    virtual bool begun() const noexcept { return false; }
    // The peer is to be told of something, and could not be yet.
    virtual bool owes() const noexcept { return false; }
    // The peer's program has to do a part of what was accepted, on its memory; it may be busy with
    // other things. Any thread, of a queue pair that is ready.
    virtual bool relies_on_peer() const noexcept { return false; }
    // This side found that the peer has to refuse the last request.
    virtual void report_refusal(mlx5::Syndrome) noexcept {}
};

}  // namespace verbatim::softnic
