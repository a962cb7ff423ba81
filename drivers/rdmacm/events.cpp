// Events from messages.
#include "events.hpp"

#include <algorithm>
#include <cstring>

#include "device_gid.hpp"

namespace verbatim::rdmacm {
namespace {

template <class Parameters>
void put_private(Parameters& parameters, const PeerMessage& message, bool datagrams) {
    // What follows in the event is zero.
    const std::size_t room = private_room(message.op, datagrams);
    std::memcpy(parameters.private_data, message.private_data.data(),
                std::min<std::size_t>(message.private_bytes, room));
    parameters.private_data_len = static_cast<std::uint8_t>(room);
}

}  // namespace

std::size_t private_room(PeerOp op, bool datagrams) noexcept {
    constexpr std::size_t kOwnHeader = 36;
    switch (op) {
        case PeerOp::request:
            return (datagrams ? 216 : 92) - kOwnHeader;
        case PeerOp::reply:
            return datagrams ? 136 : 196;
        case PeerOp::reject:
            return datagrams ? 136 : 148;
        default:
            return 0;
    }
}

rdma_ucm_event_resp plain_event(EventType type, int status) noexcept {
    rdma_ucm_event_resp event{};
    event.event = static_cast<std::uint32_t>(type);
    event.status = static_cast<std::uint32_t>(status);
    return event;
}

rdma_ucm_event_resp message_event(EventType type, const PeerMessage& message,
                                  bool datagrams) noexcept {
    rdma_ucm_event_resp event = plain_event(type, static_cast<int>(message.reason));
    if (datagrams) {
        put_private(event.param.ud, message, true);
        return event;
    }
    rdma_ucm_conn_param& facts = event.param.conn;
    put_private(facts, message, false);
    const SideFacts& side = message.side;
    facts.qp_num = side.queue_pair;
    facts.qkey = side.queue_key;
    facts.srq = side.shared_receives;
    // As seen from here: what the peer starts is what this side responds to.
    facts.responder_resources = side.initiator_depth;
    facts.initiator_depth = side.responder_resources;
    facts.flow_control = side.flow_control;
    facts.retry_count = side.retries;
    facts.rnr_retry_count = side.rnr_retries;
    event.ece.vendor_id = side.ece_vendor;
    event.ece.attr_mod = side.ece_options;
    return event;
}

rdma_ucm_event_resp datagram_event(const Identifier& identifier,
                                   const PeerMessage& reply) noexcept {
    rdma_ucm_event_resp event = message_event(EventType::established, reply, true);
    event.param.ud.qp_num = reply.side.queue_pair;
    event.param.ud.qkey = reply.side.queue_key;
    event.param.ud.ah_attr = way_to_peer(identifier);
    return event;
}

ib_uverbs_ah_attr way_to_peer(const Identifier& identifier) noexcept {
    constexpr std::uint8_t kHops = 64;
    ib_uverbs_ah_attr way{};
    way.is_global = 1;
    way.port_num = 1;
    way.grh.hop_limit = kHops;
    way.grh.traffic_class = identifier.traffic_class;
    way.grh.sgid_index = gid_of(identifier.device.value_or(0), identifier.source).index;
    std::memcpy(way.grh.dgid, identifier.theirs.gid.data(), sizeof way.grh.dgid);
    return way;
}

void raise_event(Identifier& identifier, rdma_ucm_event_resp facts) {
    // Before it has accepted, the program has no name for it; then accepting will fail.
    if (identifier.user_id == 0) return;
    facts.uid = identifier.user_id;
    facts.id = identifier.handle;
    identifier.channel->push({identifier.handle, facts});
}

}  // namespace verbatim::rdmacm
