// Commands about completion channels and completion queues: the program allocates the queues; what
// is told here is where they lie.
#include "queue_commands.hpp"

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>

#include "../protocol/command.hpp"
#include "device_objects.hpp"

namespace verbatim::uverbs {
namespace {

constexpr std::uint32_t kMaxCompletions = 1u << 22;

// 0, or what is wrong with what libmlx5 says. Entries are neither compressed nor padded.
int check_provider(const mlx5_ib_create_cq& provider) {
    constexpr std::uint16_t kPadded = MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD;
    constexpr std::uint16_t kKnown =
        kPadded | MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX | MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS;
    if ((provider.flags & ~kKnown) != 0 || provider.reserved0 != 0 || provider.reserved1 != 0 ||
        (provider.cqe_size != 64 && provider.cqe_size != 128))
        return EINVAL;
    return provider.cqe_comp_en == 1 || (provider.flags & kPadded) != 0 ? EOPNOTSUPP : 0;
}

volatile std::uint32_t* record_at(std::uint64_t address) {
    return reinterpret_cast<volatile std::uint32_t*>(address);
}

}  // namespace

int create_channel(DeviceObjects& device, const Command& command) {
    auto channel = std::make_shared<EventChannel>();
    const int descriptor = channel->programs_end();
    std::erase_if(device.channels, [](const auto& entry) { return entry.second->closed(); });
    device.channels[descriptor] = std::move(channel);
    command.reply(ib_uverbs_create_comp_channel_resp{static_cast<std::uint32_t>(descriptor)});
    return 0;
}

namespace {

int make_completion_queue(DeviceObjects& device, const ib_uverbs_ex_create_cq& wanted,
                          const mlx5_ib_create_cq& provider, ib_uverbs_create_cq_resp& reply) {
    constexpr std::uint32_t kKnownFlags =
        IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
    if (wanted.comp_vector != 0 || wanted.cqe >= kMaxCompletions) return EINVAL;
    if ((wanted.flags & ~kKnownFlags) != 0) return EOPNOTSUPP;
    if (const int error = check_provider(provider); error != 0) return error;
    std::shared_ptr<EventChannel> channel;
    if (wanted.comp_channel >= 0) {
        const auto found = device.channels.find(wanted.comp_channel);
        if (found == device.channels.end()) return EBADF;
        channel = found->second;
    }
    mlx5::CompletionQueueView view;
    view.buffer = reinterpret_cast<std::byte*>(provider.buf_addr);
    view.entries = std::bit_ceil(wanted.cqe + 1);
    view.entry_bytes = provider.cqe_size;
    view.doorbell_record = record_at(provider.db_addr);
    view.doorbell_record[mlx5::kRecordArm] = CompletionNotifier::kNeverArmed;
    auto made =
        std::make_unique<CompletionQueue>(view, std::move(channel), wanted.user_handle,
                                          device.context.async_events, device.engine_thread.bell());
    CompletionQueue& queue = *made;
    if ((wanted.flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN) != 0)
        queue.engine().ring().ignore_overrun();
    reply.cq_handle = device.completion_queues.add(std::move(made));
    if (reply.cq_handle == 0) return ENOMEM;
    reply.cqe = view.entries - 1;
    device.engine_thread.add(queue);
    return 0;
}

}  // namespace

int create_completion_queue(DeviceObjects& device, const Command& command) {
    const auto plain = command.core<ib_uverbs_create_cq>();
    ib_uverbs_ex_create_cq wanted{};
    wanted.user_handle = plain.user_handle;
    wanted.cqe = plain.cqe;
    wanted.comp_vector = plain.comp_vector;
    wanted.comp_channel = plain.comp_channel;
    ib_uverbs_create_cq_resp reply{};
    const int error = make_completion_queue(
        device, wanted, command.provider<ib_uverbs_create_cq, mlx5_ib_create_cq>(), reply);
    if (error == 0) command.reply(reply, mlx5_ib_create_cq_resp{reply.cq_handle, 0});
    return error;
}

int create_completion_queue_extended(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_ex_create_cq>();
    if (wanted.comp_mask != 0 || wanted.reserved != 0) return EINVAL;
    ib_uverbs_ex_create_cq_resp reply{};
    const int error = make_completion_queue(
        device, wanted, command.provider<ib_uverbs_ex_create_cq, mlx5_ib_create_cq>(), reply.base);
    reply.response_length = sizeof reply;
    if (error == 0) command.reply(reply, mlx5_ib_create_cq_resp{reply.base.cq_handle, 0});
    return error;
}

int destroy_completion_queue(DeviceObjects& device, const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_destroy_cq>().cq_handle;
    CompletionQueue* const queue = device.completion_queues.find(handle);
    if (queue == nullptr) return ENOENT;
    if (queue->users != 0) return EBUSY;
    device.engine_thread.remove(*queue);
    // libibverbs waits until the program has acknowledged as many.
    ib_uverbs_destroy_cq_resp reply{};
    reply.comp_events_reported = queue->end_events();
    reply.async_events_reported = queue->end_async_events();
    device.completion_queues.remove(handle);
    command.reply(reply);
    return 0;
}

// libmlx5 has made another buffer, and copies what is unpolled up to the mark that the engine
// leaves.
int resize_completion_queue(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_resize_cq>();
    const auto provider = command.provider<ib_uverbs_resize_cq, mlx5_ib_resize_cq>();
    CompletionQueue* const queue = device.completion_queues.find(wanted.cq_handle);
    if (queue == nullptr || wanted.cqe == 0 || wanted.cqe >= kMaxCompletions) return EINVAL;
    mlx5::CompletionQueueView next = queue->engine().view();
    if (std::bit_ceil(wanted.cqe + 1) == next.entries) {  // it stays where it is
        command.reply(ib_uverbs_resize_cq_resp{next.entries - 1, 0});
        return 0;
    }
    if (provider.reserved0 != 0 || provider.reserved1 != 0) return EINVAL;
    if (provider.buf_addr == 0 || provider.cqe_size != next.entry_bytes) return EINVAL;
    next.buffer = reinterpret_cast<std::byte*>(provider.buf_addr);
    next.entries = std::bit_ceil(wanted.cqe + 1);
    if (!queue->engine().move_to(next)) return EINVAL;
    command.reply(ib_uverbs_resize_cq_resp{next.entries - 1, 0});
    return 0;
}

int modify_completion_queue(DeviceObjects& device, const Command& command) {
    constexpr std::uint32_t kModeration = 1;  // enum ibv_cq_attr_mask
    const auto wanted = command.core<ib_uverbs_ex_modify_cq>();
    if (wanted.attr_mask == 0 || wanted.reserved != 0) return EINVAL;
    if (wanted.attr_mask != kModeration) return EOPNOTSUPP;
    CompletionQueue* const queue = device.completion_queues.find(wanted.cq_handle);
    if (queue == nullptr || wanted.attr.cq_period > kMaxModerationPeriod) return EINVAL;
    queue->moderate(wanted.attr.cq_count, std::chrono::microseconds(wanted.attr.cq_period));
    return 0;
}

}  // namespace verbatim::uverbs
