// Commands that ask: addresses and route of an identifier, attributes for its queue pair.
#include "query_commands.hpp"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "../../uverbs/tree/identity.hpp"
#include "../../uverbs/tree/port_mtu.hpp"
#include "../command.hpp"
#include "../device_gid.hpp"
#include "../events.hpp"
#include "../manager_state.hpp"

namespace verbatim::rdmacm {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint16_t kPartition = 0xffff;
// librdmacm goes by the GUID instead.
constexpr std::uint32_t kNoDeviceIndex = ~std::uint32_t{0};
// A second, times the retries: peers share cores with others.
constexpr std::uint8_t kAcknowledgeTimeout = 18;

std::uint64_t guid_of(int device) {
    const auto bytes = uverbs::Identity{device}.guid();
    std::uint64_t guid;
    static_assert(sizeof bytes == sizeof guid);
    std::memcpy(&guid, bytes.data(), sizeof guid);
    return guid;
}

void put_path(const Identifier& identifier, bool route_known, ib_user_path_rec& path) {
    const DeviceGid own = gid_of(*identifier.device, identifier.source);
    std::memcpy(path.sgid, own.bytes.data(), sizeof path.sgid);
    std::memcpy(path.dgid, identifier.theirs.gid.data(), sizeof path.dgid);
    path.pkey = htobe16(kPartition);
    if (!route_known) return;
    constexpr std::uint8_t kExactly = 2, kHops = 64;
    path.reversible = 1;
    path.numb_path = 1;
    path.hop_limit = kHops;
    path.traffic_class = identifier.traffic_class;
    path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
    path.mtu = uverbs::mtu_code(uverbs::port_mtu(uverbs::packet_way(0)));
    path.rate = IBV_RATE_100_GBPS;
    path.packet_life_time = 16;
}

// linux' ib_cm: what each change of state takes from the connection.
void attributes_for_init(const Identifier& identifier, ib_uverbs_qp_attr& attributes) {
    attributes.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    attributes.port_num = kPort;
    if (identifier.datagrams()) {
        attributes.qp_attr_mask |= IBV_QP_QKEY;
        attributes.qkey = kQueueKey;
        return;
    }
    attributes.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
    // Before it connects nobody is to reach its memory.
    if (identifier.state <= State::listening) return;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (identifier.responder_resources() != 0)
        attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

void attributes_for_receiving(const Identifier& identifier, ib_uverbs_qp_attr& attributes) {
    const std::uint8_t type = identifier.queue_pair_type;
    attributes.qp_attr_mask =
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
        attributes.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    attributes.ah_attr = way_to_peer(identifier);
    attributes.path_mtu = uverbs::mtu_code(uverbs::port_mtu(uverbs::packet_way(0)));
    attributes.dest_qp_num = identifier.theirs.queue_pair;
    attributes.rq_psn = identifier.ours.first_packet;
    attributes.max_dest_rd_atomic = identifier.responder_resources();
}

void attributes_for_sending(const Identifier& identifier, ib_uverbs_qp_attr& attributes) {
    const std::uint8_t type = identifier.queue_pair_type;
    attributes.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (type != IBV_QPT_UC) attributes.qp_attr_mask |= IBV_QP_TIMEOUT;
    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
        attributes.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    attributes.sq_psn = identifier.theirs.first_packet;
    attributes.timeout = identifier.acknowledge_timeout.value_or(kAcknowledgeTimeout);
    // The side that asked said for both how often to retry.
    attributes.retry_cnt = identifier.passive ? identifier.theirs.retries : identifier.ours.retries;
    attributes.rnr_retry = identifier.theirs.rnr_retries;
    attributes.max_rd_atomic = identifier.initiator_depth();
}

}  // namespace

int query_route(ManagerState& state, const std::shared_ptr<Channel>& channel,
                const Command& command) {
    constexpr std::size_t kOldest = offsetof(rdma_ucm_query_route_resp, ibdev_index);
    const auto wanted = command.body<rdma_ucm_query>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    rdma_ucm_query_route_resp reply{};
    reply.ibdev_index = kNoDeviceIndex;
    write_endpoint(identifier->source, &reply.src_addr);
    write_endpoint(identifier->destination, &reply.dst_addr);
    if (identifier->device) {
        reply.node_guid = guid_of(*identifier->device);
        reply.port_num = kPort;
        const bool route_known = identifier->state >= State::route_known;
        reply.num_paths = route_known && identifier->state != State::listening ? 1 : 0;
        put_path(*identifier, reply.num_paths != 0, reply.ib_route[0]);
    }
    return command.reply(wanted.response, reply, kOldest);
}

int query_addresses(ManagerState& state, const std::shared_ptr<Channel>& channel,
                    const Command& command) {
    constexpr std::size_t kOldest = offsetof(rdma_ucm_query_addr_resp, ibdev_index);
    const auto wanted = command.body<rdma_ucm_query>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    // Paths and GIDs are asked for where there is AF_IB.
    if (wanted.option != RDMA_USER_CM_QUERY_ADDR) return EOPNOTSUPP;
    rdma_ucm_query_addr_resp reply{};
    reply.ibdev_index = kNoDeviceIndex;
    reply.src_size =
        static_cast<std::uint16_t>(write_endpoint(identifier->source, &reply.src_addr));
    reply.dst_size =
        static_cast<std::uint16_t>(write_endpoint(identifier->destination, &reply.dst_addr));
    if (identifier->device) {
        reply.node_guid = guid_of(*identifier->device);
        reply.port_num = kPort;
        reply.pkey = htobe16(kPartition);
    }
    return command.reply(wanted.response, reply, kOldest);
}

int init_queue_pair(ManagerState& state, const std::shared_ptr<Channel>& channel,
                    const Command& command) {
    const auto wanted = command.body<rdma_ucm_init_qp_attr>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    if (!identifier->device) return EINVAL;
    const bool peer_known =
        identifier->state >= State::answered && identifier->state != State::over;
    ib_uverbs_qp_attr attributes{};
    attributes.qp_state = wanted.qp_state;
    if (wanted.qp_state == IBV_QPS_INIT)
        attributes_for_init(*identifier, attributes);
    else if (identifier->datagrams() || !peer_known)
        return EINVAL;
    else if (wanted.qp_state == IBV_QPS_RTR)
        attributes_for_receiving(*identifier, attributes);
    else if (wanted.qp_state == IBV_QPS_RTS)
        attributes_for_sending(*identifier, attributes);
    else
        return EINVAL;
    return command.reply(wanted.response, attributes);
}

}  // namespace verbatim::rdmacm
