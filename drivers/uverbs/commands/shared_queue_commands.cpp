// Commands about shared receive queues, those of XRC too: the program allocates and fills them;
// what is told here is where they lie.
#include "shared_queue_commands.hpp"

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "../objects/xrc_objects.hpp"
#include "../protocol/command.hpp"
#include "device_objects.hpp"

namespace verbatim::uverbs {
namespace {

constexpr std::uint32_t kMaxSharedEntries = 1u << 15;
constexpr std::uint32_t kMaxSharedElements = 32;  // in an entry of the longest size

// As libmlx5 lays it out: each entry a link and the elements, rounded up, 32 bytes at least.
mlx5::SharedReceiveQueueView view_of(const ib_uverbs_create_xsrq& wanted,
                                     const mlx5_ib_create_srq& provider) {
    mlx5::SharedReceiveQueueView view;
    view.buffer = reinterpret_cast<std::byte*>(provider.buf_addr);
    view.entries = std::bit_ceil(wanted.max_wr + 1);
    view.max_elements = wanted.max_sge;
    const std::uint32_t stride = std::bit_ceil(
        std::max<std::uint32_t>(32, sizeof(mlx5::SharedReceiveNextSegment) +
                                        wanted.max_sge * std::uint32_t{sizeof(mlx5::DataSegment)}));
    view.stride_log2 = static_cast<std::uint32_t>(std::countr_zero(stride));
    view.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(provider.db_addr);
    return view;
}

// 0, or what is wrong with what libmlx5 says of a queue that completions name by its index.
int check_index(const mlx5_ib_create_srq& provider) {
    constexpr std::uint32_t kNone = 0xffffff;
    return provider.uidx < kNone ? 0 : EINVAL;
}

int make_shared_queue(DeviceObjects& device, const ib_uverbs_create_xsrq& wanted,
                      const mlx5_ib_create_srq& provider, ib_uverbs_create_srq_resp& reply) {
    const bool of_xrc = wanted.srq_type == IB_UVERBS_SRQT_XRC;
    if (!of_xrc && wanted.srq_type != IB_UVERBS_SRQT_BASIC) return EOPNOTSUPP;
    Domain* const domain = device.domains.find(wanted.pd_handle);
    if (domain == nullptr || wanted.max_wr >= kMaxSharedEntries ||
        wanted.max_sge > kMaxSharedElements)
        return EINVAL;
    // A signature would be one more segment in each entry.
    if (provider.flags != 0 || provider.reserved0 != 0 || provider.reserved1 != 0) return EINVAL;
    OpenXrcDomain* const open = of_xrc ? device.xrc.domains.find(wanted.xrcd_handle) : nullptr;
    CompletionQueue* const completions =
        of_xrc ? device.completion_queues.find(wanted.cq_handle) : nullptr;
    if (of_xrc && (open == nullptr || completions == nullptr || check_index(provider) != 0))
        return EINVAL;
    mlx5::SharedReceiveQueueView view = view_of(wanted, provider);
    view.number = of_xrc ? open->domain->engine().free_number(*device.core)
                         : device.core->numbers().next_shared_receive_queue();
    if (view.number == 0) return ENOMEM;
    auto made = std::make_unique<SharedQueue>(view, domain, device.context.async_events,
                                              wanted.user_handle);
    SharedQueue& queue = *made;
    queue.max_requests = view.entries - 1;
    queue.max_elements = wanted.max_sge;
    if (of_xrc && !queue.join_xrc(*open, *completions, *device.core, provider.uidx)) return ENOMEM;
    reply.srq_handle = device.shared_queues.add(std::move(made));
    if (reply.srq_handle == 0) return ENOMEM;
    ++domain->users;
    if (of_xrc) ++open->users, ++completions->users;
    reply.max_wr = view.entries - 1;
    reply.max_sge = wanted.max_sge;
    reply.srqn = view.number;
    return 0;
}

}  // namespace

int create_shared_queue(DeviceObjects& device, const Command& command) {
    const auto plain = command.core<ib_uverbs_create_srq>();
    if (!command.provider_ends<ib_uverbs_create_srq, mlx5_ib_create_srq>()) return EINVAL;
    ib_uverbs_create_xsrq wanted{};
    wanted.user_handle = plain.user_handle;
    wanted.srq_type = IB_UVERBS_SRQT_BASIC;
    wanted.pd_handle = plain.pd_handle;
    wanted.max_wr = plain.max_wr;
    wanted.max_sge = plain.max_sge;
    ib_uverbs_create_srq_resp reply{};
    const int error = make_shared_queue(
        device, wanted, command.provider<ib_uverbs_create_srq, mlx5_ib_create_srq>(), reply);
    if (error == 0) command.reply(reply, mlx5_ib_create_srq_resp{reply.srqn, 0});
    return error;
}

int create_typed_shared_queue(DeviceObjects& device, const Command& command) {
    if (!command.provider_ends<ib_uverbs_create_xsrq, mlx5_ib_create_srq>()) return EINVAL;
    ib_uverbs_create_srq_resp reply{};
    const int error =
        make_shared_queue(device, command.core<ib_uverbs_create_xsrq>(),
                          command.provider<ib_uverbs_create_xsrq, mlx5_ib_create_srq>(), reply);
    if (error == 0) command.reply(reply, mlx5_ib_create_srq_resp{reply.srqn, 0});
    return error;
}

int destroy_shared_queue(DeviceObjects& device, const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_destroy_srq>().srq_handle;
    SharedQueue* const queue = device.shared_queues.find(handle);
    if (queue == nullptr) return ENOENT;
    if (queue->users != 0) return EBUSY;
    queue->leave_xrc();
    if (queue->open_domain != nullptr) --queue->open_domain->users, --queue->completions->users;
    --queue->domain->users;
    const std::uint32_t events =
        queue->async_events->end_events(queue->user_handle, queue->async_events_sent);
    device.shared_queues.remove(handle);
    command.reply(ib_uverbs_destroy_srq_resp{events});
    return 0;
}

int modify_shared_queue(DeviceObjects& device, const Command& command) {
    constexpr std::uint32_t kRequests = 1, kLimit = 2;  // enum ibv_srq_attr_mask
    const auto change = command.core<ib_uverbs_modify_srq>();
    SharedQueue* const queue = device.shared_queues.find(change.srq_handle);
    // Kernels cannot resize them on this device either; other bits say nothing to them.
    if (queue == nullptr || (change.attr_mask & kRequests) != 0) return EINVAL;
    if ((change.attr_mask & kLimit) == 0) return 0;
    if (change.srq_limit > queue->max_requests) return EINVAL;
    queue->list.set_limit(static_cast<std::uint16_t>(change.srq_limit));
    return 0;
}

int query_shared_queue(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_query_srq>();
    const SharedQueue* const queue = device.shared_queues.find(wanted.srq_handle);
    if (queue == nullptr) return EINVAL;
    command.reply(
        ib_uverbs_query_srq_resp{queue->max_requests, queue->max_elements, queue->list.limit(), 0});
    return 0;
}

}  // namespace verbatim::uverbs
