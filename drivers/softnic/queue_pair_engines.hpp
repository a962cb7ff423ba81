// The engines of a queue pair: its queues, the requester and the responder that work on them, and a
// gate around each, in which one thread at a time runs it. Threads: any, but for what says
// otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "../softqueue/gate.hpp"
#include "../softqueue/strict_doorbell.hpp"
#include "engine/requester.hpp"
#include "queue_pair_parts.hpp"
#include "responder/receive_engine.hpp"

namespace verbatim::softnic {

class DeviceCore;

class QueuePairEngines {
  public:
    // Both queues belong to `parts`, whose memory moves here.
    QueuePairEngines(const DeviceCore& core, QueuePairParts& parts) noexcept;
    QueuePairEngines(const QueuePairEngines&) = delete;
    QueuePairEngines& operator=(const QueuePairEngines&) = delete;

    // Control path, once, in this order. The second throws std::bad_alloc.
    void set_number(std::uint32_t number) noexcept;
    void make(DeviceCore& core, const QueuePairParts& parts, mlx5::DoorbellHook hook);

    const mlx5::QueuePairView& view() const noexcept { return view_; }
    QueuePairShared& shared() noexcept { return shared_; }
    const QueuePairShared& shared() const noexcept { return shared_; }
    // Once they are made.
    Requester& requester() noexcept { return *send_; }
    const Requester& requester() const noexcept { return *send_; }
    ReceiveEngine& responder() noexcept { return *receive_; }
    const ReceiveEngine& responder() const noexcept { return *receive_; }
    // Null unless the device checks doorbells.
    StrictDoorbell* strict() noexcept { return strict_.get(); }
    Gate& send_gate() noexcept { return send_gate_; }
    Gate& receive_gate() noexcept { return receive_gate_; }

    // Control path: between stop() and the others no engine runs.
    void stop() noexcept;
    // False: something was announced meanwhile, and is left for the caller.
    bool go_on() noexcept;
    // Only what the caller does next runs the engines.
    void leave_gates() noexcept;
    // As new. Stopped.
    void reset() noexcept;

    // More could be done now than a turn did.
    bool unfinished() const noexcept {
        return (receive_->waiting() && !receive_->not_ready()) ||
               (shared_.receives() && (send_->port().owes() || receive_->owes_wake()));
    }
    // Whether a thread that has just driven this queue pair must come back by itself, because
    // nobody will call when there is more to do: soon, for requests and messages that wait for a
    // time or for a receive; late, because receives may be posted to a queue that failed. Under the
    // walk of a progress list.
    enum class Return : std::uint8_t { never, late, soon };
    Return must_return() const noexcept;
    // Whether there is something that nobody else will tell of (attention.hpp).
    bool has_work() const noexcept;
    // A message waits for a receive of the peer. Before the queue pair is ready there may be a
    // wire, or none, but no port to ask.
    bool message_waits() const noexcept {
        return shared_.is(QueuePairState::ready) && send_->port().message_waits();
    }

  private:
    bool counts_time() const noexcept;

    std::unique_ptr<QueuePairMemory> memory_;  // null: it is the caller's
    mlx5::QueuePairView view_;
    QueuePairShared shared_;
    std::unique_ptr<StrictDoorbell> strict_;
    std::optional<Requester> send_;
    std::optional<ReceiveEngine> receive_;
    Gate send_gate_, receive_gate_;
};

}  // namespace verbatim::softnic
