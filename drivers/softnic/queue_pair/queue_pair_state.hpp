// The state that the two engines of a queue pair share.
#pragma once

#include <atomic>
#include <optional>

#include <verbatim/driver/device.hpp>

#include "../ports/roce/foreign/datagram_wire.hpp"
#include "datagram_flows.hpp"
#include "queue_pair_access.hpp"
#include "queue_pair_connection.hpp"
#include "queue_pair_failure.hpp"
#include "queue_pair_limits.hpp"
#include "queue_pair_traits.hpp"

namespace verbatim::softnic {

struct QueuePairShared {
    QueuePairTraits traits;
    std::atomic<QueuePairState> state{QueuePairState::reset};
    QueuePairLimits limits;
    QueuePairConnection connection;         // of all but datagram queue pairs
    std::optional<QueuePairAccess> access;  // from the queue pair's making on
    DatagramSources sources;                // of datagram queue pairs
    // Likewise: packets of any device. Null: there are none. Owner: DatagramSetup.
    std::atomic<DatagramWire*> wire{nullptr};
    QueuePairFailure failure;

    bool is(QueuePairState wanted) const noexcept {
        return state.load(std::memory_order_acquire) == wanted;
    }
    bool receives() const noexcept {
        const QueuePairState now = state.load(std::memory_order_acquire);
        return now == QueuePairState::ready || now == QueuePairState::ready_to_receive;
    }
    bool datagrams_wait() const noexcept {
        const DatagramWire* const packets = wire.load(std::memory_order_acquire);
        return sources.pending() || (packets != nullptr && packets->pending());
    }
    // Nothing that is sent now is answered.
    bool peer_silent() const noexcept { return !traits.datagrams() && connection.silent(); }
    // From ready to error; both engines flush from now on, and the peer's requests are not answered
    // any more.
    void enter_error() noexcept {
        state.store(QueuePairState::error, std::memory_order_release);
        connection.incoming.set_state(ReceiverState::error);
        sources.set_state(ReceiverState::error);
        connection.wake_peer();
    }
};

}  // namespace verbatim::softnic
