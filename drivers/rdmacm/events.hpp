// Events as the program reads them (struct rdma_ucm_event_resp). Private data have the length that
// an InfiniBand message of the kind always carries, with zeros behind what the peer said, as over
// every RoCE device. Threads: any.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>

#include "identifier.hpp"
#include "peer_message.hpp"

namespace verbatim::rdmacm {

// Values of enum rdma_cm_event_type. rdma/rdma_cma.h, which has it, cannot be included beside the
// kernel's header.
enum class EventType : std::uint32_t {
    address_resolved = 0,
    address_error = 1,
    route_resolved = 2,
    connect_request = 4,
    connect_response = 5,
    unreachable = 7,
    rejected = 8,
    established = 9,
    disconnected = 10,
    waited_out = 15,
};

// The queue key of the port space of datagrams (librdmacm: RDMA_UDP_QKEY).
inline constexpr std::uint32_t kQueueKey = 0x01234567;

// Reasons of rejections (InfiniBand Architecture Specification, REJ and SIDR_REP).
enum : std::uint32_t {
    kNobodyListens = 8,
    kRejectedByProgram = 28,
    kOptionRefused = 35,
    kNoDatagramsHere = 1,
    kDatagramsRejected = 2,
};

// How many bytes of private data fit beside a message: the part of REQ and SIDR_REQ that the
// connection manager does not use itself, all of REP, SIDR_REP and REJ.
std::size_t private_room(PeerOp op, bool datagrams) noexcept;

// An event without anything else to say.
rdma_ucm_event_resp plain_event(EventType type, int status = 0) noexcept;
// With the private data of a message; its connection parameters where it has some.
rdma_ucm_event_resp message_event(EventType type, const PeerMessage& message,
                                  bool datagrams) noexcept;
// Datagrams may be sent: to where.
rdma_ucm_event_resp datagram_event(const Identifier& identifier, const PeerMessage& reply) noexcept;

// The way to the peer, as queue pairs and address handles take it.
ib_uverbs_ah_attr way_to_peer(const Identifier& identifier) noexcept;

// Tells the program, if it has named the identifier. Threads: under the manager's lock.
void raise_event(Identifier& identifier, rdma_ucm_event_resp facts);

}  // namespace verbatim::rdmacm
