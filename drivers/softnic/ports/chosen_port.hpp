// The port of one queue pair: the shm port by value, or another one behind its interface. Each call
// is one branch that always goes the same way, and calls of the shm port are direct and inlined: a
// template of everything above would cost no branch, but one more requester in the code for each
// port, and the port is chosen when a queue pair is connected, not when it is compiled. Threads: as
// Port.
#pragma once

#include "port.hpp"
#include "shm_port.hpp"

namespace verbatim::softnic {

class ChosenPort {
  public:
    // `other`: instead of the shm port, where it is not null; outlives this.
    ChosenPort(QueuePairShared& shared, Port* other) noexcept : shm_(shared), other_(other) {}

    bool is_shm() const noexcept { return other_ == nullptr; }
    ShmPort& shm() noexcept { return shm_; }

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept {
        return is_shm() ? shm_.post(request, bytes) : other_->post(request, bytes);
    }
    void begin_turn() noexcept { is_shm() ? shm_.begin_turn() : other_->begin_turn(); }
    void end_turn() noexcept { is_shm() ? shm_.end_turn() : other_->end_turn(); }
    Ticket acknowledged() const noexcept {
        return is_shm() ? shm_.acknowledged() : other_->acknowledged();
    }
    mlx5::Syndrome refused() const noexcept {
        return is_shm() ? shm_.refused() : other_->refused();
    }
    bool has_result(Ticket ticket) const noexcept {
        return is_shm() ? shm_.has_result(ticket) : other_->has_result(ticket);
    }
    bool take_result(const PieceList& into) noexcept {
        return is_shm() ? shm_.take_result(into) : other_->take_result(into);
    }
    bool waits_for_receive(Ticket ticket) const noexcept {
        return is_shm() ? shm_.waits_for_receive(ticket) : other_->waits_for_receive(ticket);
    }
    std::chrono::nanoseconds not_ready_for() const noexcept {
        return is_shm() ? shm_.not_ready_for() : other_->not_ready_for();
    }
    void give_up() noexcept { is_shm() ? shm_.give_up() : other_->give_up(); }
    bool message_waits() const noexcept {
        return is_shm() ? shm_.message_waits() : other_->message_waits();
    }
    bool silent() const noexcept { return is_shm() ? shm_.silent() : other_->silent(); }
    mlx5::Syndrome silence() const noexcept {
        return is_shm() ? shm_.silence() : other_->silence();
    }
    bool begun() const noexcept { return is_shm() ? shm_.begun() : other_->begun(); }
    bool owes() const noexcept { return is_shm() ? shm_.owes() : other_->owes(); }
    bool relies_on_peer() const noexcept {
        return is_shm() ? shm_.relies_on_peer() : other_->relies_on_peer();
    }
    void report_refusal(mlx5::Syndrome syndrome) noexcept {
        is_shm() ? shm_.report_refusal(syndrome) : other_->report_refusal(syndrome);
    }

  private:
    ShmPort shm_;
    Port* const other_;
};

}  // namespace verbatim::softnic
