// The state machine of queue pairs, by ibv_modify_qp. Source: InfiniBand Architecture
// Specification, "Queue Pair States"; the manual of ibv_modify_qp says what each change needs.
#include "queue_pair_states.hpp"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "address_vector.hpp"
#include "messages.hpp"

namespace verbatim::rdma {
namespace {

constexpr std::uint8_t kAddressKind = 2;  // QueuePairAddress::kind of RDMA devices
constexpr std::uint32_t kPacketMask = 0xffffff;
// The usual values of connection managers: 4.096 us * 2^14 = 67 ms per try, as often as can be
// said.
constexpr std::uint8_t kTimeout = 14, kRetries = 7, kMostRetries = 7, kRnrTimer = 12;
// ibv_mtu 1 means 256 bytes.
constexpr int kMtuLog2Base = 7;

}  // namespace

QueuePairStates::QueuePairStates(std::shared_ptr<Port> port, const QueuePairOptions& options)
    : port_(std::move(port)),
      gid_(port_->gid_for(options.local_address)),
      not_ready_retries_(std::min(options.not_ready_retries, kMostRetries)),
      first_packet_(std::random_device{}() & kPacketMask) {}

std::string QueuePairStates::object() const {
    return fmt::format("{} queue pair {}", port_->name, queue_ == nullptr ? 0 : queue_->qp_num);
}

QueuePairAddress QueuePairStates::address() const {
    QueuePairAddress address;
    address.kind = kAddressKind;
    address.mtu_log2 = static_cast<std::uint8_t>(kMtuLog2Base + port_->port_attributes.active_mtu);
    address.lid = port_->port_attributes.lid;
    address.number = queue_->qp_num;
    address.packet_sequence = first_packet_;
    address.gid = gid_.bytes;
    address.reads_answered = reads_answered(port_->attributes.max_qp_rd_atom);
    return address;
}

void QueuePairStates::connect(const QueuePairAddress& peer, int /*timeout_ms*/) {
    if (peer.kind != kAddressKind)
        throw Error(Errc::unsupported, object(), "the peer's device is no RDMA device",
                    "choose the same device.kind on both sides");
    to_initialized();
    initialized();
    to_ready_to_receive(peer);
    to_ready(peer);
    ready();
}

void QueuePairStates::modify(ibv_qp_attr& attributes, int mask, const char* target) {
    if (const int cause = ibv_modify_qp(queue_.get(), &attributes, mask); cause != 0)
        throw call_error(object(), target, cause);
}

void QueuePairStates::to_initialized() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = 0;
    attributes.port_num = port_->number;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    // Devices without atomics refuse to allow them.
    if (port_->atomics.plain) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
           "ibv_modify_qp to INIT");
}

void QueuePairStates::to_ready_to_receive(const QueuePairAddress& peer) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    const int mtu = std::min<int>(port_->port_attributes.active_mtu, peer.mtu_log2 - kMtuLog2Base);
    attributes.path_mtu = static_cast<ibv_mtu>(std::max<int>(mtu, IBV_MTU_256));
    attributes.dest_qp_num = peer.number;
    attributes.rq_psn = peer.packet_sequence & kPacketMask;
    attributes.max_dest_rd_atomic = reads_answered(port_->attributes.max_qp_rd_atom);
    attributes.min_rnr_timer = kRnrTimer;
    attributes.ah_attr = address_vector(*port_, gid_, peer);
    modify(attributes,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
           "ibv_modify_qp to RTR");
}

// No more reads and atomics are under way than the peer has room for: it would refuse those beyond.
void QueuePairStates::to_ready(const QueuePairAddress& peer) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = kTimeout;
    attributes.retry_cnt = kRetries;
    attributes.rnr_retry = not_ready_retries_;
    attributes.sq_psn = first_packet_;
    attributes.max_rd_atomic = reads_asked(port_->attributes.max_qp_init_rd_atom, peer);
    modify(attributes,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC,
           "ibv_modify_qp to RTS");
}

void QueuePairStates::fail() noexcept {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    static_cast<void>(ibv_modify_qp(queue_.get(), &attributes, IBV_QP_STATE));
}

void QueuePairStates::reset() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RESET;
    modify(attributes, IBV_QP_STATE, "ibv_modify_qp to RESET");
    port_->count_invalidation();
}

// rdma-core asks the firmware; flags 0: of the whole message.
bool QueuePairStates::data_in_order() const noexcept {
    return ibv_query_qp_data_in_order(queue_.get(), IBV_WR_RDMA_WRITE, 0) != 0;
}

// The device turns a queue pair to error by itself, so it is asked.
QueuePairState QueuePairStates::state() const noexcept {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr unused{};
    if (ibv_query_qp(queue_.get(), &attributes, IBV_QP_STATE, &unused) != 0)
        return QueuePairState::error;
    switch (attributes.qp_state) {
        case IBV_QPS_RESET:
            return QueuePairState::reset;
        case IBV_QPS_INIT:
            return QueuePairState::initialized;
        case IBV_QPS_RTR:
            return QueuePairState::ready_to_receive;
        case IBV_QPS_RTS:
        case IBV_QPS_SQD:
            return QueuePairState::ready;
        default:
            return QueuePairState::error;
    }
}

}  // namespace verbatim::rdma
