// A captured port is one without packets, the shm or the tcp port, whose requests are kept in a
// capture file as packets. Each request goes to the port below first; its packets are written when
// it was accepted, and its answer's when that is known. Owner: the queue pair's requester.
// Threads: as Port.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "captured_requests.hpp"

namespace verbatim::softnic {

class CapturedPort final : public Port {
  public:
    // `port` outlives this, or is `owned`; the file outlives this.
    CapturedPort(Port& port, std::unique_ptr<Port> owned, CaptureFile& file,
                 const CapturedEnds& ends) noexcept
        : owned_(std::move(owned)), port_(port), requests_(file, ends) {}

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept override;
    void begin_turn() noexcept override {
        port_.begin_turn();
        look_at_acknowledged();
    }
    void end_turn() noexcept override {
        port_.end_turn();
        look_at_acknowledged();
    }
    Ticket acknowledged() const noexcept override { return port_.acknowledged(); }
    mlx5::Syndrome refused() const noexcept override { return port_.refused(); }
    bool has_result(Ticket ticket) const noexcept override { return port_.has_result(ticket); }
    bool take_result(const PieceList& into) noexcept override;
    bool waits_for_receive(Ticket ticket) const noexcept override {
        return port_.waits_for_receive(ticket);
    }
    std::uint64_t tries(std::chrono::nanoseconds waited) const noexcept override {
        return port_.tries(waited);
    }
    void give_up() noexcept override { port_.give_up(); }
    bool message_waits() const noexcept override { return port_.message_waits(); }
    void await_last() noexcept override { port_.await_last(); }
    bool silent() const noexcept override { return port_.silent(); }
    mlx5::Syndrome silence() const noexcept override { return port_.silence(); }
    bool begun() const noexcept override { return port_.begun(); }
    bool owes() const noexcept override { return port_.owes(); }
    bool relies_on_peer() const noexcept override { return port_.relies_on_peer(); }
    void report_refusal(mlx5::Syndrome syndrome) noexcept override {
        port_.report_refusal(syndrome);
    }

  private:
    // A read or an atomic operation whose result is on its way.
    struct Fetch {
        CapturedRequests::Numbers numbers;
        bool atomic = false;
    };
    // Of those beyond no answer is captured.
    static constexpr std::uint64_t kMostFetches = 256;

    void look_at_acknowledged() noexcept;
    void respond(const Fetch& fetch, const PieceList& bytes) noexcept;

    const std::unique_ptr<Port> owned_;
    Port& port_;
    CapturedRequests requests_;
    // The last request that waits for an acknowledgement; that of a later one is one of it, too.
    Ticket awaited_ = 0;  // 0: there is none
    std::uint64_t awaited_number_ = 0;
    std::array<Fetch, kMostFetches> fetches_;
    std::uint64_t asked_ = 0, answered_ = 0;  // fetches
};

}  // namespace verbatim::softnic
