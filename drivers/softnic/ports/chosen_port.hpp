// The port of one queue pair: the shm port by value, or another one behind its interface. Each call
// is one branch that always goes the same way, and calls of the shm port are direct and inlined: a
// template of everything above would cost no branch, but one more requester in the code for each
// port, and the port is chosen when a queue pair is connected, not when it is compiled. Threads: as
// Port.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "port.hpp"
#include "shm_port.hpp"

namespace verbatim::softnic {

class ChosenPort {
  public:
    // `other`: instead of the shm port, where it is not null; outlives this.
    ChosenPort(QueuePairShared& shared, Port* other) noexcept : shm_(shared), other_(other) {}

    bool is_shm() const noexcept { return other() == nullptr; }
    ShmPort& shm() noexcept { return shm_; }
    // Control path, gate closed: another port, until drop().
    void use(std::unique_ptr<Port> port) noexcept {
        other_.store(port.get(), std::memory_order_release);
        owned_ = std::move(port);
    }
    void drop() noexcept {
        if (owned_ != nullptr) use(nullptr);
    }

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept {
        return is_shm() ? shm_.post(request, bytes) : other()->post(request, bytes);
    }
    void begin_turn() noexcept { is_shm() ? shm_.begin_turn() : other()->begin_turn(); }
    void end_turn() noexcept { is_shm() ? shm_.end_turn() : other()->end_turn(); }
    Ticket acknowledged() const noexcept {
        return is_shm() ? shm_.acknowledged() : other()->acknowledged();
    }
    mlx5::Syndrome refused() const noexcept {
        return is_shm() ? shm_.refused() : other()->refused();
    }
    bool has_result(Ticket ticket) const noexcept {
        return is_shm() ? shm_.has_result(ticket) : other()->has_result(ticket);
    }
    bool take_result(const PieceList& into) noexcept {
        return is_shm() ? shm_.take_result(into) : other()->take_result(into);
    }
    bool waits_for_receive(Ticket ticket) const noexcept {
        return is_shm() ? shm_.waits_for_receive(ticket) : other()->waits_for_receive(ticket);
    }
    std::uint64_t tries(std::chrono::nanoseconds waited) const noexcept {
        return is_shm() ? shm_.tries(waited) : other()->tries(waited);
    }
    void give_up() noexcept { is_shm() ? shm_.give_up() : other()->give_up(); }
    bool message_waits() const noexcept {
        return is_shm() ? shm_.message_waits() : other()->message_waits();
    }
    void await_last() noexcept {
        if (!is_shm()) other()->await_last();
    }
    bool silent() const noexcept { return is_shm() ? shm_.silent() : other()->silent(); }
    mlx5::Syndrome silence() const noexcept {
        return is_shm() ? shm_.silence() : other()->silence();
    }
    bool begun() const noexcept { return is_shm() ? shm_.begun() : other()->begun(); }
    bool owes() const noexcept { return is_shm() ? shm_.owes() : other()->owes(); }
    bool relies_on_peer() const noexcept {
        return is_shm() ? shm_.relies_on_peer() : other()->relies_on_peer();
    }
    void report_refusal(mlx5::Syndrome syndrome) noexcept {
        is_shm() ? shm_.report_refusal(syndrome) : other()->report_refusal(syndrome);
    }

  private:
    Port* other() const noexcept { return other_.load(std::memory_order_acquire); }

    ShmPort shm_;
    std::atomic<Port*> other_;
    std::unique_ptr<Port> owned_;
};

}  // namespace verbatim::softnic
