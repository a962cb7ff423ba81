// Hands requests over to the ring of the peer's queue pair: messages, and what the peer is to
// execute for this side (pieces of writes and reads, atomic operations). A request that does not
// fit at once is begun, and goes on with the next call for the same request. Owner: the shm port.
// Threads: the one inside the send gate, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstdint>

#include "../queue_pair/queue_pair_state.hpp"
#include "port.hpp"

namespace verbatim::softnic {

class RingSender {
  public:
    explicit RingSender(QueuePairShared& shared) noexcept : shared_(&shared) {}
    void reset() noexcept;

    // The peer has taken everything, and no request is begun: nothing comes before the next one.
    bool idle() noexcept { return sent_ == 0 && shared_->connection.outgoing.all_taken(); }
    // A part of a request was handed over, whose rest must follow the same way.
    bool begun() const noexcept { return message_begun_ || sent_ != 0; }
    // Of XRC: the peer's shared receive queue that the next requests are for.
    void set_queue(std::uint32_t queue) noexcept { queue_ = queue; }

    PortAnswer send(const PortRequest& request, const PieceList& bytes) noexcept;
    // A write's bytes, by the peer; `noteworthy`: it is to be woken for them.
    PortAnswer write(const PortRequest& request, const PieceList& bytes, bool noteworthy) noexcept;
    // Room for the immediate of a write; behind its bytes, where these cross the ring as well.
    bool has_room() noexcept;
    PortAnswer write_immediate(const PortRequest& request, const PieceList& bytes,
                               bool crosses) noexcept;
    PortAnswer read(const PortRequest& request, const PieceList& into) noexcept;
    PortAnswer atomic(const RemoteAtomic& operation, bool noteworthy) noexcept;
    void take_result(const PieceList& into) noexcept;

    // The peer is to take what is in the ring first.
    PortAnswer wait_for_peer(bool noteworthy) noexcept;
    // Why a silent peer does not answer the request that is begun: it may have refused a part of it
    // before.
    mlx5::Syndrome silence() const noexcept;
    // The peer has not executed all requests on its memory that it was given. Any thread, while the
    // queue pair is ready.
    bool relies_on_peer() const noexcept {
        return one_sided_.load(std::memory_order_relaxed) >
               shared_->connection.outgoing.acknowledged();
    }
    // Any thread.
    bool owes_wake() const noexcept { return owes_wake_.load(std::memory_order_relaxed); }
    void wake_receiver(bool noteworthy) noexcept;

  private:
    bool tell_queue() noexcept;
    bool put(const PortRequest& request, const PieceList& bytes, bool last) noexcept;
    void take_answers(const PieceList& into) noexcept;
    void ask_for_pieces(const PortRequest& request, const PieceList& into) noexcept;
    PortAnswer handed_over(bool noteworthy) noexcept;
    PortAnswer handed_over_one_sided(bool noteworthy) noexcept;
    mlx5::Syndrome refused() const noexcept {
        return static_cast<mlx5::Syndrome>(shared_->connection.outgoing.refused());
    }

    QueuePairShared* shared_;
    Ticket tickets_ = 0;                // messages handed over completely
    std::atomic<Ticket> one_sided_{0};  // the last of those that the peer executes on memory
    std::uint64_t sent_ = 0;            // bytes of the current request handed over, or asked for
    bool message_begun_ = false;
    std::uint32_t queue_ = 0, told_queue_ = 0;  // of the current request; of the records
    // Atomic operations that the peer executes.
    std::uint64_t atomics_asked_ = 0, atomics_taken_ = 0;
    // Pieces of the peer's memory; bytes of them that the current request has.
    std::uint64_t pieces_asked_ = 0, pieces_taken_ = 0, taken_ = 0;
    std::atomic<bool> owes_wake_{false};  // the peer has not read what it was told before
};

}  // namespace verbatim::softnic
