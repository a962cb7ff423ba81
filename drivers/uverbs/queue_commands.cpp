// Commands about queues: the caller allocates and fills them; what is told here is where they lie,
// and what is told back are numbers and registers.
#include <rdma/mlx5-abi.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "device_file.hpp"

namespace verbatim::uverbs {
namespace {

// Bits of ib_uverbs_modify_qp::attr_mask (enum ibv_qp_attr_mask).
enum : std::uint32_t {
    kState = 1u << 0,
    kAccess = 1u << 3,
    kKeyIndex = 1u << 4,
    kPort = 1u << 5,
    kQueueKey = 1u << 6,
    kAddress = 1u << 7,
    kMtu = 1u << 8,
    kTimeout = 1u << 9,
    kRetries = 1u << 10,
    kRnrRetries = 1u << 11,
    kReceivePacket = 1u << 12,
    kReadsOut = 1u << 13,
    kRnrTimer = 1u << 15,
    kSendPacket = 1u << 16,
    kReadsIn = 1u << 17,
    kDestination = 1u << 20,
};
enum State : std::uint8_t {
    kReset,
    kInit,
    kReadyToReceive,
    kReadyToSend,
    kDrained,
    kSendError,
    kError
};

// Which changes of state there are (InfiniBand Architecture Specification, "Queue Pair States").
bool may_follow(std::uint8_t from, std::uint8_t to) {
    if (to == kReset || to == kError) return true;
    switch (from) {
        case kReset:
            return to == kInit;
        case kInit:
            return to == kInit || to == kReadyToReceive;
        case kReadyToReceive:
        case kSendError:
            return to == kReadyToSend;
        case kReadyToSend:
        case kDrained:
            return to == kReadyToSend || to == kDrained;
        default:
            return false;
    }
}

template <class T>
void keep(std::uint32_t mask, std::uint32_t bit, T& kept, T given) {
    if ((mask & bit) != 0) kept = given;
}

}  // namespace

int DeviceFile::create_channel(const Command& command) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
    close(ends[0]);  // nothing here raises completion events
    command.reply(ib_uverbs_create_comp_channel_resp{static_cast<std::uint32_t>(ends[1])});
    return 0;
}

ib_uverbs_create_cq_resp DeviceFile::make_completion_queue(std::uint32_t entries,
                                                           std::uint64_t record) {
    // The word that arms the queue must differ from the first arming.
    reinterpret_cast<volatile std::uint32_t*>(record)[1] = ~std::uint32_t{0};
    ib_uverbs_create_cq_resp reply{};
    reply.cq_handle = new_other();
    reply.cqe = entries;
    return reply;
}

int DeviceFile::create_completion_queue(const Command& command) {
    const auto provider = command.provider<ib_uverbs_create_cq, mlx5_ib_create_cq>();
    const auto reply =
        make_completion_queue(command.core<ib_uverbs_create_cq>().cqe, provider.db_addr);
    command.reply(reply, mlx5_ib_create_cq_resp{reply.cq_handle, 0});
    return 0;
}

int DeviceFile::create_completion_queue_extended(const Command& command) {
    const auto provider = command.provider<ib_uverbs_ex_create_cq, mlx5_ib_create_cq>();
    ib_uverbs_ex_create_cq_resp reply{};
    reply.base =
        make_completion_queue(command.core<ib_uverbs_ex_create_cq>().cqe, provider.db_addr);
    reply.response_length = sizeof reply;
    command.reply(reply, mlx5_ib_create_cq_resp{reply.base.cq_handle, 0});
    return 0;
}

int DeviceFile::destroy_completion_queue(const Command& command) {
    const int error = forget(command.core<ib_uverbs_destroy_cq>().cq_handle);
    if (error == 0) command.reply(ib_uverbs_destroy_cq_resp{});
    return error;
}

// libmlx5 has four registers per page, of which the first two are doorbells for posting. Number 0
// has no BlueFlame; those of the last two pages are used without a lock, so they go first.
std::uint32_t DeviceFile::next_register() noexcept {
    constexpr std::uint32_t kLast = 2 * kRegisterPages - 1;
    const std::uint32_t place = kLast - registers_++ % kLast;
    return place / 2 * 4 + place % 2;
}

ib_uverbs_create_qp_resp DeviceFile::make_queue_pair(const ib_uverbs_ex_create_qp& wanted) {
    ib_uverbs_create_qp_resp reply{};
    reply.qp_handle = new_object();
    reply.qpn = 0x100 + reply.qp_handle;
    reply.max_send_wr = wanted.max_send_wr;
    reply.max_recv_wr = wanted.max_recv_wr;
    reply.max_send_sge = wanted.max_send_sge;
    reply.max_recv_sge = wanted.max_recv_sge;
    reply.max_inline_data = wanted.max_inline_data;
    auto facts = std::make_unique<ib_uverbs_query_qp_resp>();
    facts->max_send_wr = wanted.max_send_wr;
    facts->max_recv_wr = wanted.max_recv_wr;
    facts->max_send_sge = wanted.max_send_sge;
    facts->max_recv_sge = wanted.max_recv_sge;
    facts->max_inline_data = wanted.max_inline_data;
    facts->sq_sig_all = wanted.sq_sig_all;
    queue_pairs_[reply.qp_handle] = std::move(facts);
    return reply;
}

int DeviceFile::create_queue_pair(const Command& command) {
    const auto plain = command.core<ib_uverbs_create_qp>();
    ib_uverbs_ex_create_qp wanted{};
    // From user_handle to reserved the two forms are the same.
    std::memcpy(static_cast<void*>(&wanted), &plain.user_handle,
                sizeof plain - offsetof(ib_uverbs_create_qp, user_handle));
    mlx5_ib_create_qp_resp provider{};
    provider.bfreg_index = next_register();
    command.reply(make_queue_pair(wanted), provider);
    return 0;
}

int DeviceFile::create_queue_pair_extended(const Command& command) {
    const auto wanted = command.core<ib_uverbs_ex_create_qp>();
    if (wanted.comp_mask != 0) return EOPNOTSUPP;
    ib_uverbs_ex_create_qp_resp reply{};
    reply.base = make_queue_pair(wanted);
    reply.response_length = sizeof reply;
    mlx5_ib_create_qp_resp provider{};
    provider.bfreg_index = next_register();
    command.reply(reply, provider);
    return 0;
}

int DeviceFile::change(const ib_uverbs_modify_qp& change) {
    const auto found = queue_pairs_.find(change.qp_handle);
    if (found == queue_pairs_.end()) return EINVAL;
    ib_uverbs_query_qp_resp& facts = *found->second;
    const std::uint32_t mask = change.attr_mask;
    if ((mask & kState) != 0 && !may_follow(facts.qp_state, change.qp_state)) return EINVAL;
    keep(mask, kState, facts.qp_state, change.qp_state);
    facts.cur_qp_state = facts.qp_state;
    keep(mask, kAccess, facts.qp_access_flags, change.qp_access_flags);
    keep(mask, kKeyIndex, facts.pkey_index, change.pkey_index);
    keep(mask, kPort, facts.port_num, change.port_num);
    keep(mask, kQueueKey, facts.qkey, change.qkey);
    keep(mask, kAddress, facts.dest, change.dest);
    keep(mask, kMtu, facts.path_mtu, change.path_mtu);
    keep(mask, kTimeout, facts.timeout, change.timeout);
    keep(mask, kRetries, facts.retry_cnt, change.retry_cnt);
    keep(mask, kRnrRetries, facts.rnr_retry, change.rnr_retry);
    keep(mask, kReceivePacket, facts.rq_psn, change.rq_psn);
    keep(mask, kReadsOut, facts.max_rd_atomic, change.max_rd_atomic);
    keep(mask, kRnrTimer, facts.min_rnr_timer, change.min_rnr_timer);
    keep(mask, kSendPacket, facts.sq_psn, change.sq_psn);
    keep(mask, kReadsIn, facts.max_dest_rd_atomic, change.max_dest_rd_atomic);
    keep(mask, kDestination, facts.dest_qp_num, change.dest_qp_num);
    return 0;
}

int DeviceFile::modify_queue_pair(const Command& command) {
    return change(command.core<ib_uverbs_modify_qp>());
}

int DeviceFile::modify_queue_pair_extended(const Command& command) {
    const int error = change(command.core<ib_uverbs_ex_modify_qp>().base);
    if (error == 0)
        command.reply(ib_uverbs_ex_modify_qp_resp{0, sizeof(ib_uverbs_ex_modify_qp_resp)});
    return error;
}

int DeviceFile::query_queue_pair(const Command& command) {
    const auto found = queue_pairs_.find(command.core<ib_uverbs_query_qp>().qp_handle);
    if (found == queue_pairs_.end()) return EINVAL;
    command.reply(*found->second);
    return 0;
}

int DeviceFile::destroy_queue_pair(const Command& command) {
    if (queue_pairs_.erase(command.core<ib_uverbs_destroy_qp>().qp_handle) == 0) return EINVAL;
    command.reply(ib_uverbs_destroy_qp_resp{});
    return 0;
}

int DeviceFile::create_shared_queue(const Command& command) {
    const auto wanted = command.core<ib_uverbs_create_srq>();
    ib_uverbs_create_srq_resp reply{};
    reply.srq_handle = new_other();
    reply.max_wr = wanted.max_wr;
    reply.max_sge = wanted.max_sge;
    reply.srqn = reply.srq_handle;
    command.reply(reply, mlx5_ib_create_srq_resp{reply.srq_handle, 0});
    return 0;
}

int DeviceFile::destroy_shared_queue(const Command& command) {
    const int error = forget(command.core<ib_uverbs_destroy_srq>().srq_handle);
    if (error == 0) command.reply(ib_uverbs_destroy_srq_resp{});
    return error;
}

}  // namespace verbatim::uverbs
