// The port to a peer on this host. One-sided requests are executed by this thread, in the peer's
// memory, whose keys the peer's mapped table shows; messages cross the peer's ring, and so does
// what this side cannot do: requests on memory that is neither mapped here nor attachable, and
// atomic operations on private memory. What follows something that the peer has not taken from the
// ring yet crosses it too, or waits: so everything takes effect in order. The copies themselves are
// RemoteMemory's. Owner: the queue pair's requester. Threads: as Port.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory_access.hpp"
#include "port.hpp"
#include "queue_pair_state.hpp"

namespace verbatim::softnic {

class ShmPort final : public Port {
  public:
    explicit ShmPort(QueuePairShared& shared) noexcept
        : shared_(&shared), remote_(shared.failure) {}

    // Control path, gate closed: to the peer that the queue pair is connected with, or to none.
    void bind();
    void reset() noexcept;
    // After a jump out of a copy.
    void recover() noexcept { remote_.recover(); }

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept override;
    // The most frequent request by far: a few bytes that lie side by side, for mapped memory.
    // False: nothing was done, and post() is to look into it.
    bool write_now(std::uint32_t key, std::uint64_t address, const std::byte* from,
                   std::size_t bytes) noexcept {
        return sent_ == 0 && shared_->outgoing.all_taken() &&
               remote_.write_now(key, address, from, bytes);
    }
    bool takes_writes() const noexcept { return shared_->outgoing.allows(Access::remote_write); }

    void begin_turn() noexcept override {
        if (owes()) [[unlikely]]
            wake_receiver(true);
    }
    void end_turn() noexcept override {
        if (shared_->outgoing.take_news()) shared_->link->ring_bell();
    }
    Ticket acknowledged() const noexcept override { return shared_->outgoing.acknowledged(); }
    mlx5::Syndrome refused() const noexcept override {
        return static_cast<mlx5::Syndrome>(shared_->outgoing.refused());
    }
    bool has_result(Ticket ticket) const noexcept override { return ticket <= acknowledged(); }
    bool take_result(const PieceList& into) noexcept override;
    bool waits_for_receive(Ticket ticket) const noexcept override {
        return shared_->outgoing.waits_for_receive(ticket);
    }
    std::chrono::nanoseconds not_ready_for() const noexcept override {
        return shared_->outgoing.not_ready_for();
    }
    void give_up() noexcept override { shared_->outgoing.give_up(); }
    bool message_waits() const noexcept override { return shared_->outgoing.a_message_waits(); }
    bool silent() const noexcept override {
        return shared_->link != nullptr && shared_->peer_silent();
    }
    mlx5::Syndrome silence() const noexcept override;
    bool begun() const noexcept override { return message_begun_ || sent_ != 0; }
    bool owes() const noexcept override { return owes_wake_.load(std::memory_order_relaxed); }
    void report_refusal(mlx5::Syndrome syndrome) noexcept override;

  private:
    bool expect_queue(std::uint32_t queue) noexcept;
    bool tell_queue() noexcept;
    bool allowed(Access wanted) noexcept;
    PortAnswer write(const PortRequest& request, const PieceList& bytes) noexcept;
    PortAnswer send(const PortRequest& request, const PieceList& bytes) noexcept;
    PortAnswer read(const PortRequest& request, const PieceList& into) noexcept;
    PortAnswer atomic(const RemoteAtomic& operation, const PieceList& into) noexcept;
    PortAnswer atomic_at_peer(const RemoteAtomic& operation, bool noteworthy) noexcept;
    bool put_through_peer(const PortRequest& request, const PieceList& bytes, bool last) noexcept;
    PortAnswer get_through_peer(const PortRequest& request, const PieceList& into) noexcept;
    void take_answers(const PieceList& into) noexcept;
    void ask_for_pieces(const PortRequest& request, const PieceList& into) noexcept;
    PortAnswer refuse(mlx5::Syndrome syndrome) noexcept;
    PortAnswer no_room() noexcept;
    PortAnswer wait_for_peer(bool noteworthy) noexcept;
    PortAnswer handed_over(bool solicited) noexcept;
    void wake_receiver(bool noteworthy) noexcept;

    QueuePairShared* shared_;
    RemoteMemory remote_;
    Ticket tickets_ = 0;      // messages handed to the ring completely
    std::uint64_t sent_ = 0;  // bytes of the current request handed to the ring, or asked for
    bool message_begun_ = false;
    // Of XRC: the peer's shared receive queue that the request is for, and that records are for.
    std::uint32_t queue_ = 0, told_queue_ = 0;
    // Atomic operations that the peer executes.
    std::uint64_t atomics_asked_ = 0, atomics_taken_ = 0;
    // Pieces of the peer's memory; bytes of them that the current request has.
    std::uint64_t pieces_asked_ = 0, pieces_taken_ = 0, taken_ = 0;
    std::atomic<bool> owes_wake_{false};  // the peer has not read what it was told before
};

}  // namespace verbatim::softnic
