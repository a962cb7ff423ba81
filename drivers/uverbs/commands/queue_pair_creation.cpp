// Commands that make queue pairs, in the program's memory.
#include "queue_pair_commands.hpp"

#include <rdma/mlx5-abi.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "../objects/datagram_route.hpp"
#include "../objects/xrc_objects.hpp"
#include "../protocol/command.hpp"
#include "../protocol/queue_pair_attributes.hpp"
#include "device_objects.hpp"
#include "queue_pair_layout.hpp"
#include "xrc_commands.hpp"

namespace verbatim::uverbs {
namespace {

std::optional<mlx5::Transport> transport_of(std::uint8_t type) {
    switch (type) {
        case kReliable:
        case kXrcInitiator:
            return mlx5::Transport::reliable_connection;
        case kUnreliable:
            return mlx5::Transport::unreliable_connection;
        case kDatagram:
            return mlx5::Transport::unreliable_datagram;
        default:
            return std::nullopt;
    }
}

void ask_for_flow(void* context, std::uint32_t number) noexcept {
    const auto& pair = *static_cast<const QueuePair*>(context);
    pair.connector->add_flow(*pair.engine, softnic::address_of_number(number));
}

// Bits of ib_uverbs_ex_create_qp::create_flags that there are (enum ib_qp_create_flags of linux).
constexpr std::uint32_t kCreateFlags = 0xf << 1 | 0xf << 8;
template <class Core>
int check_provider(const Command& command) {
    if (!command.provider_ends<Core, mlx5_ib_create_qp>()) return EINVAL;
    return check_layout(command.provider<Core, mlx5_ib_create_qp>(),
                        command.provider_bytes<Core>());
}

// The objects that the queue pair will use; 0 or an errno.
int find_parts(const DeviceObjects& device, const ib_uverbs_ex_create_qp& wanted, QueuePair& pair) {
    pair.domain = device.domains.find(wanted.pd_handle);
    pair.send_completions = device.completion_queues.find(wanted.send_cq_handle);
    // An initiator receives nothing: what it is given for that is not looked at.
    const bool receives = wanted.qp_type != kXrcInitiator;
    pair.receive_completions =
        receives ? device.completion_queues.find(wanted.recv_cq_handle) : pair.send_completions;
    const bool shares = receives && wanted.is_srq != 0;
    if (shares) pair.shared_receives = device.shared_queues.find(wanted.srq_handle);
    const bool all = pair.domain != nullptr && pair.send_completions != nullptr &&
                     pair.receive_completions != nullptr &&
                     (!shares || (pair.shared_receives != nullptr &&
                                  pair.shared_receives->open_domain == nullptr));
    return all ? 0 : EINVAL;
}

void keep_capacities(const ib_uverbs_ex_create_qp& wanted, QueuePair& pair,
                     ib_uverbs_create_qp_resp& reply) {
    const bool receives =
        wanted.qp_type != kXrcInitiator && wanted.is_srq == 0 && wanted.max_recv_wr != 0;
    pair.facts->max_send_wr = reply.max_send_wr = wanted.max_send_wr;
    pair.facts->max_recv_wr = reply.max_recv_wr = receives ? wanted.max_recv_wr : 0;
    pair.facts->max_send_sge = reply.max_send_sge = wanted.max_send_sge;
    pair.facts->max_recv_sge = reply.max_recv_sge = receives ? wanted.max_recv_sge : 0;
    pair.facts->max_inline_data = reply.max_inline_data = wanted.max_inline_data;
    pair.facts->sq_sig_all = wanted.sq_sig_all;
}

// The target itself, and the program's handle of it.
int make_target(DeviceObjects& device, const ib_uverbs_ex_create_qp& wanted,
                ib_uverbs_create_qp_resp& reply) {
    OpenXrcDomain* const open = device.xrc.domains.find(wanted.pd_handle);
    if (open == nullptr) return EINVAL;
    const auto target = std::make_shared<XrcTarget>();
    target->pair = std::make_unique<QueuePair>();
    QueuePair& pair = *target->pair;
    pair.type = wanted.qp_type;
    pair.opened_as = target.get();
    pair.connector = &device.connector;
    keep_capacities(wanted, pair, reply);
    softnic::QueuePairParts parts;
    parts.view = view_of_target();
    parts.xrc_domain = {open->domain, &open->domain->engine()};
    parts.send_completions = parts.receive_completions = &parts.xrc_domain->no_completions();
    if (!device.facts.parked) parts.progress = &device.engine_thread.queue_pairs();
    parts.follows_verbs = true;
    parts.events = {QueuePair::report, &pair};
    pair.engine = std::make_unique<softnic::QueuePair>(device.core, std::move(parts));
    reply.qpn = pair.engine->view().number;
    reply.qp_handle = add_target_handle(device, target, *open, wanted.user_handle);
    if (reply.qp_handle == 0) return ENOMEM;
    std::erase_if(device.xrc.targets, [](const auto& one) { return one.expired(); });
    device.xrc.targets.push_back(target);
    open->domain->add_target(reply.qpn, target);
    if (!device.facts.parked) device.start_threads();
    return 0;
}

// What the engine is told of a queue pair that has its objects.
softnic::QueuePairParts parts_of(DeviceObjects& device, const ib_uverbs_ex_create_qp& wanted,
                                 const mlx5_ib_create_qp& provider, QueuePair& pair,
                                 mlx5::Transport transport) {
    softnic::QueuePairParts parts;
    parts.names_queues = wanted.qp_type == kXrcInitiator;
    parts.view = view_of_queues(provider, pair.shared_receives == nullptr && !parts.names_queues);
    parts.view.transport = transport;
    parts.domain = pair.domain->number;
    parts.flow_request = {ask_for_flow, &pair};
    parts.route = way_back(device.facts.identity);
    parts.max_datagram = device.facts.mtu;
    parts.send_completions = &pair.send_completions->engine();
    parts.receive_completions = &pair.receive_completions->engine();
    allow_data_in_entries(parts, provider.flags, wanted.sq_sig_all != 0);
    if (pair.shared_receives != nullptr) parts.shared_receives = &pair.shared_receives->list;
    if (!device.facts.parked) parts.progress = &device.engine_thread.queue_pairs();
    parts.send_index = parts.receive_index = provider.uidx & 0xffffff;
    parts.follows_verbs = true;
    parts.events = {QueuePair::report, &pair};
    return parts;
}

int make_queue_pair(DeviceObjects& device, const ib_uverbs_ex_create_qp& wanted,
                    const mlx5_ib_create_qp& provider, ib_uverbs_create_qp_resp& reply) {
    if (!is_type(wanted.qp_type) || (wanted.create_flags & ~kCreateFlags) != 0) return EINVAL;
    if (wanted.create_flags != 0) return EOPNOTSUPP;
    if (wanted.qp_type == kXrcTarget) return make_target(device, wanted, reply);
    const auto transport = transport_of(wanted.qp_type);
    if (!transport) return EOPNOTSUPP;
    auto pair = std::make_unique<QueuePair>();
    if (const int error = find_parts(device, wanted, *pair); error != 0) return error;
    if (const int error = check_sizes(provider); error != 0) return error;
    pair->type = wanted.qp_type;
    pair->connector = &device.connector;
    pair->async_events = &device.context.async_events;
    pair->user_handle = wanted.user_handle;
    keep_capacities(wanted, *pair, reply);
    pair->engine = std::make_unique<softnic::QueuePair>(
        device.core, parts_of(device, wanted, provider, *pair, *transport));
    reply.qpn = pair->engine->view().number;
    QueuePair& made = *pair;
    reply.qp_handle = device.queue_pairs.add(std::move(pair));
    if (reply.qp_handle == 0) return ENOMEM;
    ++made.domain->users, ++made.send_completions->users, ++made.receive_completions->users;
    if (made.shared_receives != nullptr) ++made.shared_receives->users;
    if (!device.facts.parked) {
        device.registers.find(provider);
        device.start_threads();
    }
    return 0;
}

}  // namespace

int create_queue_pair(DeviceObjects& device, const Command& command) {
    const auto plain = command.core<ib_uverbs_create_qp>();
    ib_uverbs_ex_create_qp wanted{};
    // From user_handle to reserved the two forms are the same.
    std::memcpy(static_cast<void*>(&wanted), &plain.user_handle,
                sizeof plain - offsetof(ib_uverbs_create_qp, user_handle));
    if (const int error = check_provider<ib_uverbs_create_qp>(command); error != 0) return error;
    ib_uverbs_create_qp_resp reply{};
    const int error = make_queue_pair(
        device, wanted, command.provider<ib_uverbs_create_qp, mlx5_ib_create_qp>(), reply);
    mlx5_ib_create_qp_resp provider{};
    provider.bfreg_index = device.registers.next();
    if (error == 0) command.reply(reply, provider);
    return error;
}

int create_queue_pair_extended(DeviceObjects& device, const Command& command) {
    constexpr std::uint32_t kTable = IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
    const auto wanted = command.core<ib_uverbs_ex_create_qp>();
    if ((wanted.comp_mask & ~kTable) != 0 || wanted.reserved != 0) return EINVAL;
    if (wanted.comp_mask != 0) return EOPNOTSUPP;
    if (const int error = check_provider<ib_uverbs_ex_create_qp>(command); error != 0) return error;
    ib_uverbs_ex_create_qp_resp reply{};
    const int error = make_queue_pair(
        device, wanted, command.provider<ib_uverbs_ex_create_qp, mlx5_ib_create_qp>(), reply.base);
    reply.response_length = sizeof reply;
    mlx5_ib_create_qp_resp provider{};
    provider.bfreg_index = device.registers.next();
    if (error == 0) command.reply(reply, provider);
    return error;
}

}  // namespace verbatim::uverbs
