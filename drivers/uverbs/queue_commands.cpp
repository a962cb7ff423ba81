// Commands about completion channels, completion queues and shared receive queues: the program
// allocates and fills them; what is told here is where they lie.
#include <rdma/mlx5-abi.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include "device_file.hpp"

namespace verbatim::uverbs {
namespace {

constexpr std::uint32_t kMaxCompletions = 1u << 22, kMaxSharedEntries = 1u << 15;

volatile std::uint32_t* record_at(std::uint64_t address) {
    return reinterpret_cast<volatile std::uint32_t*>(address);
}

}  // namespace

int DeviceFile::create_channel(const Command& command) {
    auto channel = std::make_shared<EventChannel>();
    const int descriptor = channel->programs_end();
    std::erase_if(channels_, [](const auto& entry) { return entry.second->closed(); });
    channels_[descriptor] = std::move(channel);
    command.reply(ib_uverbs_create_comp_channel_resp{static_cast<std::uint32_t>(descriptor)});
    return 0;
}

int DeviceFile::make_completion_queue(const ib_uverbs_ex_create_cq& wanted,
                                      const mlx5_ib_create_cq& provider,
                                      ib_uverbs_create_cq_resp& reply) {
    if (wanted.comp_vector != 0 || wanted.cqe == 0 || wanted.cqe >= kMaxCompletions ||
        (provider.cqe_size != 64 && provider.cqe_size != 128))
        return EINVAL;
    std::shared_ptr<EventChannel> channel;
    if (wanted.comp_channel >= 0) {
        const auto found = channels_.find(wanted.comp_channel);
        if (found == channels_.end()) return EINVAL;
        channel = found->second;
    }
    mlx5::CompletionQueueView view;
    view.buffer = reinterpret_cast<std::byte*>(provider.buf_addr);
    view.entries = std::bit_ceil(wanted.cqe + 1);
    view.entry_bytes = provider.cqe_size;
    view.doorbell_record = record_at(provider.db_addr);
    view.doorbell_record[mlx5::kRecordArm] = CompletionQueue::kNeverArmed;
    auto made = std::make_unique<CompletionQueue>(view, std::move(channel), wanted.user_handle,
                                                  async_events_, engine_thread_.bell());
    CompletionQueue& queue = *made;
    reply.cq_handle = completion_queues_.add(std::move(made));
    if (reply.cq_handle == 0) return ENOMEM;
    reply.cqe = view.entries - 1;
    engine_thread_.add(queue);
    return 0;
}

int DeviceFile::create_completion_queue(const Command& command) {
    const auto plain = command.core<ib_uverbs_create_cq>();
    ib_uverbs_ex_create_cq wanted{};
    wanted.user_handle = plain.user_handle;
    wanted.cqe = plain.cqe;
    wanted.comp_vector = plain.comp_vector;
    wanted.comp_channel = plain.comp_channel;
    ib_uverbs_create_cq_resp reply{};
    const int error = make_completion_queue(
        wanted, command.provider<ib_uverbs_create_cq, mlx5_ib_create_cq>(), reply);
    if (error == 0) command.reply(reply, mlx5_ib_create_cq_resp{reply.cq_handle, 0});
    return error;
}

int DeviceFile::create_completion_queue_extended(const Command& command) {
    ib_uverbs_ex_create_cq_resp reply{};
    const int error = make_completion_queue(
        command.core<ib_uverbs_ex_create_cq>(),
        command.provider<ib_uverbs_ex_create_cq, mlx5_ib_create_cq>(), reply.base);
    reply.response_length = sizeof reply;
    if (error == 0) command.reply(reply, mlx5_ib_create_cq_resp{reply.base.cq_handle, 0});
    return error;
}

int DeviceFile::destroy_completion_queue(const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_destroy_cq>().cq_handle;
    CompletionQueue* const queue = completion_queues_.find(handle);
    if (queue == nullptr) return EINVAL;
    if (queue->users != 0) return EBUSY;
    engine_thread_.remove(*queue);
    // libibverbs waits until the program has acknowledged as many.
    ib_uverbs_destroy_cq_resp reply{};
    reply.comp_events_reported = queue->end_events();
    reply.async_events_reported = queue->end_async_events();
    completion_queues_.remove(handle);
    command.reply(reply);
    return 0;
}

int DeviceFile::create_shared_queue(const Command& command) {
    const auto wanted = command.core<ib_uverbs_create_srq>();
    const auto provider = command.provider<ib_uverbs_create_srq, mlx5_ib_create_srq>();
    Domain* const domain = domains_.find(wanted.pd_handle);
    if (domain == nullptr || wanted.max_wr == 0 || wanted.max_wr >= kMaxSharedEntries ||
        wanted.max_sge > mlx5::kMaxWqeUnits - 1)
        return EINVAL;
    mlx5::SharedReceiveQueueView view;
    view.buffer = reinterpret_cast<std::byte*>(provider.buf_addr);
    view.entries = std::bit_ceil(wanted.max_wr + 1);
    view.max_elements = wanted.max_sge;
    // As libmlx5 lays it out: a link and the elements, rounded up, 32 bytes at least.
    const std::uint32_t stride = std::bit_ceil(
        std::max<std::uint32_t>(32, sizeof(mlx5::SharedReceiveNextSegment) +
                                        wanted.max_sge * std::uint32_t{sizeof(mlx5::DataSegment)}));
    view.stride_log2 = static_cast<std::uint32_t>(std::countr_zero(stride));
    view.doorbell_record = record_at(provider.db_addr);
    view.number = core_->next_shared_receive_queue();
    ib_uverbs_create_srq_resp reply{};
    auto queue = std::make_unique<SharedQueue>(view, domain, async_events_, wanted.user_handle);
    queue->max_requests = wanted.max_wr;
    queue->max_elements = wanted.max_sge;
    reply.srq_handle = shared_queues_.add(std::move(queue));
    if (reply.srq_handle == 0) return ENOMEM;
    ++domain->users;
    reply.max_wr = wanted.max_wr;
    reply.max_sge = wanted.max_sge;
    reply.srqn = view.number;
    command.reply(reply, mlx5_ib_create_srq_resp{view.number, 0});
    return 0;
}

int DeviceFile::destroy_shared_queue(const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_destroy_srq>().srq_handle;
    SharedQueue* const queue = shared_queues_.find(handle);
    if (queue == nullptr) return EINVAL;
    if (queue->users != 0) return EBUSY;
    --queue->domain->users;
    const std::uint32_t events =
        async_events_.end_events(queue->user_handle, queue->async_events_sent);
    shared_queues_.remove(handle);
    command.reply(ib_uverbs_destroy_srq_resp{events});
    return 0;
}

int DeviceFile::modify_shared_queue(const Command& command) {
    constexpr std::uint32_t kLimit = 2;  // enum ibv_srq_attr_mask
    const auto change = command.core<ib_uverbs_modify_srq>();
    SharedQueue* const queue = shared_queues_.find(change.srq_handle);
    // Kernels cannot resize them on this device either.
    if (queue == nullptr || (change.attr_mask & ~kLimit) != 0) return EINVAL;
    if ((change.attr_mask & kLimit) == 0) return 0;
    if (change.srq_limit >= queue->max_requests) return EINVAL;
    queue->list.set_limit(static_cast<std::uint16_t>(change.srq_limit));
    return 0;
}

int DeviceFile::query_shared_queue(const Command& command) {
    const auto wanted = command.core<ib_uverbs_query_srq>();
    const SharedQueue* const queue = shared_queues_.find(wanted.srq_handle);
    if (queue == nullptr) return EINVAL;
    command.reply(
        ib_uverbs_query_srq_resp{queue->max_requests, queue->max_elements, queue->list.limit(), 0});
    return 0;
}

// libmlx5 has made another buffer, and copies what is unpolled up to the mark that the engine
// leaves.
int DeviceFile::resize_completion_queue(const Command& command) {
    const auto wanted = command.core<ib_uverbs_resize_cq>();
    const auto provider = command.provider<ib_uverbs_resize_cq, mlx5_ib_resize_cq>();
    CompletionQueue* const queue = completion_queues_.find(wanted.cq_handle);
    if (queue == nullptr || wanted.cqe == 0 || wanted.cqe >= kMaxCompletions) return EINVAL;
    mlx5::CompletionQueueView next = queue->engine().view();
    if (provider.buf_addr == 0 || provider.cqe_size != next.entry_bytes) return EINVAL;
    next.buffer = reinterpret_cast<std::byte*>(provider.buf_addr);
    next.entries = std::bit_ceil(wanted.cqe + 1);
    if (!queue->engine().move_to(next)) return EINVAL;
    command.reply(ib_uverbs_resize_cq_resp{next.entries - 1, 0});
    return 0;
}

int DeviceFile::modify_completion_queue(const Command& command) {
    constexpr std::uint32_t kModeration = 1;  // enum ibv_cq_attr_mask
    const auto wanted = command.core<ib_uverbs_ex_modify_cq>();
    if (wanted.attr_mask == 0 || wanted.reserved != 0) return EINVAL;
    if (wanted.attr_mask != kModeration) return EOPNOTSUPP;
    CompletionQueue* const queue = completion_queues_.find(wanted.cq_handle);
    if (queue == nullptr || wanted.attr.cq_period > kMaxModerationPeriod) return EINVAL;
    queue->moderate(wanted.attr.cq_count, std::chrono::microseconds(wanted.attr.cq_period));
    return 0;
}

}  // namespace verbatim::uverbs
