// A communication identifier (struct rdma_cm_id of librdmacm): its addresses, and how far its
// connection has come. Threads: under the manager's lock.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "../softnic/host/descriptor.hpp"
#include "channel.hpp"
#include "endpoint.hpp"
#include "peer_message.hpp"
#include "port_claim.hpp"

namespace verbatim::rdmacm {

using Clock = std::chrono::steady_clock;

enum class State : std::uint8_t {
    idle,
    bound,
    address_known,
    route_known,
    listening,
    asking,        // request sent
    answered,      // reply received; the program is to set up its queue pair and accept
    asked,         // request received, for the program to accept or reject
    accepting,     // reply sent
    connected,     // datagrams: the peer is known, or knows us
    leaving,       // disconnect sent
    left_by_peer,  // disconnect received
    over,
};

struct Identifier {
    std::uint32_t handle = 0;
    std::shared_ptr<Channel> channel;
    std::uint64_t user_id = 0;  // the program's name for it; 0: not told yet
    PortSpace space = PortSpace::tcp;
    std::uint8_t queue_pair_type = IBV_QPT_RC;  // enum ibv_qp_type
    State state = State::idle;

    Endpoint source, destination;
    std::optional<int> device;  // index
    softnic::Descriptor claim;  // of the port; listens when the identifier does
    bool shares_port = false;
    std::optional<bool> only_family;
    std::uint8_t traffic_class = 0;
    std::optional<std::uint8_t> acknowledge_timeout;  // as queue pairs have it

    softnic::Descriptor link;
    SideFacts ours, theirs;
    bool passive = false;
    bool has_accepted = false;  // the passive side
    // In asking, accepting and leaving: when the peer has had enough time. In left_by_peer: when
    // the program is told. In over: when the queue pair's number may be used again.
    std::optional<Clock::time_point> deadline;
    std::optional<PeerMessage> unsent_request;  // nobody has taken it so far
    Clock::time_point listener_by;              // until then somebody may begin to listen

    std::uint32_t room = 0;  // listening: requests that may come before the program looks
    std::uint32_t events_reported = 0;

    bool datagrams() const noexcept { return queue_pair_type == IBV_QPT_UD; }
    // Reads and atomics at a time, that the peer may start and that this side may start: its own
    // word once it has accepted, the peer's until then and on the side that asked.
    std::uint8_t responder_resources() const noexcept {
        return has_accepted ? ours.responder_resources : theirs.initiator_depth;
    }
    std::uint8_t initiator_depth() const noexcept {
        return has_accepted ? ours.initiator_depth : theirs.responder_resources;
    }
};

}  // namespace verbatim::rdmacm
