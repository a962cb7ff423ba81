// Turns one entry of a send queue into an operation, and has it executed: at the peer by the port,
// on this device's keys, or as a datagram. Owner: the requester. Threads: the one inside the send
// gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../faults/request_faults.hpp"
#include "../ports/chosen_port.hpp"
#include "../ports/datagram_sender.hpp"
#include "../ports/send_request.hpp"
#include "completion_order.hpp"
#include "request_elements.hpp"
#include "window_requests.hpp"

namespace verbatim::softnic {

class RequestExecutor {
  public:
    // All but the first two are the requester's parts.
    RequestExecutor(KeyTable& keys, QueuePairShared& shared, ChosenPort& port,
                    RequestElements& elements, CompletionOrder& order,
                    RequestFaults& faults) noexcept
        : shared_(&shared),
          port_(&port),
          elements_(&elements),
          order_(&order),
          faults_(&faults),
          windows_(keys, shared),
          datagrams_(shared),
          first_unit_(shared.traits.names_queues ? kXrcUnits : kPlainUnits) {}

    // Sets what the request's completion is to say of bytes and results.
    PortAnswer execute(SendRequest& request) noexcept;
    // Whether the address is in one of the request's own elements.
    bool names_local(const SendRequest& request, const void* address) noexcept;
    DatagramSender& datagrams() noexcept { return datagrams_; }
    void reset() noexcept { windows_.reset(); }

  private:
    PortAnswer execute_at_peer(SendRequest& request) noexcept;
    PortAnswer execute_atomic(SendRequest& request, PortRequest& wanted) noexcept;
    PortAnswer fetch(SendRequest& request, const PortRequest& wanted, std::size_t first_unit,
                     PieceList& list) noexcept;
    PortAnswer execute_datagram(SendRequest& request) noexcept;

    QueuePairShared* shared_;
    ChosenPort* port_;
    RequestElements* elements_;
    CompletionOrder* order_;
    RequestFaults* faults_;
    WindowRequests windows_;
    DatagramSender datagrams_;
    // Units of every request before what its opcode needs: control segment, and XRC segment.
    static constexpr std::uint8_t kPlainUnits = 1, kXrcUnits = 2;
    const std::uint8_t first_unit_;
};

}  // namespace verbatim::softnic
