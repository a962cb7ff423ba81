// The port to a peer on this host. One-sided requests are executed by this thread, in the peer's
// memory, whose keys the peer's mapped table shows (RemoteMemory); messages cross the peer's ring,
// and so does what this side cannot do: requests on memory that is neither mapped here nor
// attachable, and atomic operations on private memory (RingSender). What follows something that the
// peer has not taken from the ring yet crosses it too, or waits: so everything takes effect in
// order. Owner: the queue pair's requester. Threads: as Port.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../queue_pair/queue_pair_state.hpp"
#include "memory_access.hpp"
#include "port.hpp"
#include "ring_sender.hpp"

namespace verbatim::softnic {

class ShmPort final : public Port {
  public:
    explicit ShmPort(QueuePairShared& shared) noexcept
        : shared_(&shared), remote_(shared.failure.text), ring_(shared) {}

    // Control path, gate closed: to the peer that the queue pair is connected with, or to none.
    void bind();
    void reset() noexcept;
    // After a jump out of a copy.
    void recover() noexcept { remote_.recover(); }

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept override;
    // The peer's memory, where nothing that was handed over comes before what is done there now;
    // else null.
    RemoteMemory* memory_now() noexcept { return ring_.idle() ? &remote_ : nullptr; }

    void begin_turn() noexcept override {
        if (owes()) [[unlikely]]
            ring_.wake_receiver(true);
    }
    void end_turn() noexcept override {
        if (!shared_->connection.outgoing.take_news()) return;
        shared_->connection.outgoing
            .signal();  // before the bell: a thread that it wakes finds the mark
        shared_->connection.link->ring_bell();
    }
    Ticket acknowledged() const noexcept override {
        return shared_->connection.outgoing.acknowledged();
    }
    mlx5::Syndrome refused() const noexcept override {
        return static_cast<mlx5::Syndrome>(shared_->connection.outgoing.refused());
    }
    bool has_result(Ticket ticket) const noexcept override { return ticket <= acknowledged(); }
    bool take_result(const PieceList& into) noexcept override {
        ring_.take_result(into);
        return true;
    }
    bool waits_for_receive(Ticket ticket) const noexcept override {
        return shared_->connection.outgoing.waits_for_receive(ticket);
    }
    std::uint64_t tries(std::chrono::nanoseconds waited) const noexcept override {
        return tries_in(waited, shared_->connection.outgoing.not_ready_for());
    }
    void give_up() noexcept override { shared_->connection.outgoing.give_up(); }
    bool message_waits() const noexcept override {
        return shared_->connection.outgoing.a_message_waits();
    }
    bool silent() const noexcept override {
        return shared_->connection.link != nullptr && shared_->peer_silent();
    }
    mlx5::Syndrome silence() const noexcept override { return ring_.silence(); }
    bool begun() const noexcept override { return ring_.begun(); }
    bool owes() const noexcept override { return ring_.owes_wake(); }
    bool relies_on_peer() const noexcept override { return ring_.relies_on_peer(); }
    void report_refusal(mlx5::Syndrome syndrome) noexcept override {
        shared_->connection.outgoing.report_fault(static_cast<std::uint8_t>(syndrome));
    }

  private:
    bool expect_queue(std::uint32_t queue) noexcept;
    bool allowed(Access wanted) noexcept;
    PortAnswer write(const PortRequest& request, const PieceList& bytes) noexcept;
    PortAnswer read(const PortRequest& request, const PieceList& into) noexcept;
    PortAnswer atomic(const RemoteAtomic& operation, const PieceList& into) noexcept;
    PortAnswer refuse(mlx5::Syndrome syndrome) noexcept;

    QueuePairShared* shared_;
    RemoteMemory remote_;
    RingSender ring_;
};

}  // namespace verbatim::softnic
