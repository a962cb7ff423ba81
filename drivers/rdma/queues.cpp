// Creation of mlx5 queues through rdma-core.
#include "queues.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "messages.hpp"
#include "own_handles.hpp"
#include "shared_receive_queue.hpp"

namespace verbatim::rdma {
namespace {

constexpr std::uint32_t kShortestQueueUnits = mlx5::kBlockBytes / mlx5::kUnitBytes;

}  // namespace

CompletionChannel::CompletionChannel(std::shared_ptr<Port> port)
    : port_(std::move(port)), channel_(ibv_create_comp_channel(port_->context.get())) {
    if (channel_ == nullptr)
        throw call_error(port_->name + " completion channel", "ibv_create_comp_channel", errno);
    const int flags = fcntl(channel_->fd, F_GETFL);
    if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        throw call_error(port_->name + " completion channel", "fcntl", errno);
}

CompletionQueueHandle* CompletionChannel::take_event() {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_.get(), &queue, &context) != 0) return nullptr;
    ibv_ack_cq_events(queue, 1);
    return static_cast<CompletionQueueHandle*>(context);
}

CompletionQueue::CompletionQueue(std::shared_ptr<Port> port, std::uint32_t entries,
                                 CompletionChannelHandle* channel)
    : port_(std::move(port)) {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = std::max(entries, 1U);
    attributes.channel = own_channel(channel, port_->name + " completion queue");
    attributes.cq_context = static_cast<CompletionQueueHandle*>(this);
    mlx5dv_cq_init_attr extra{};
    extra.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
    extra.cqe_size = sizeof(mlx5::Cqe);
    ibv_cq_ex* const created = mlx5dv_create_cq(port_->context.get(), &attributes, &extra);
    if (created == nullptr)
        throw call_error(port_->name + " completion queue", "mlx5dv_create_cq", errno);
    queue_.reset(ibv_cq_ex_to_cq(created));
    mlx5dv_cq facts{};
    mlx5dv_obj object{};
    object.cq.in = queue_.get();
    object.cq.out = &facts;
    if (const int cause = mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ); cause != 0)
        throw call_error(port_->name + " completion queue", "mlx5dv_init_obj", cause);
    view_.buffer = static_cast<std::byte*>(facts.buf);
    view_.entries = facts.cqe_cnt;
    view_.entry_bytes = facts.cqe_size;
    view_.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(facts.dbrec);
    view_.doorbell_register = static_cast<volatile std::byte*>(facts.cq_uar);
    view_.number = facts.cqn;
}

void CompletionQueue::resize(std::uint32_t entries) {
    throw Error(Errc::unsupported, fmt::format("{} completion queue {}", port_->name, view_.number),
                fmt::format("it has {} entries, and rdma-core cannot give {} to a queue that it "
                            "does not poll itself",
                            view_.entries, entries),
                "create it as large as it will ever be");
}

QueuePair::QueuePair(std::shared_ptr<Port> port, const QueuePairOptions& options)
    : QueuePairStates(std::move(port), options) {
    make_domain();
    make_queue(options);
    make_view(options);
}

// For a register of its own. A process gets a limited number of those; queue pairs beyond it share
// registers.
void QueuePair::make_domain() {
    ibv_td_init_attr thread_attributes{};
    thread_domain_.reset(ibv_alloc_td(port_->context.get(), &thread_attributes));
    if (thread_domain_ == nullptr) {
        log::info(
            "{}: no doorbell register of its own is left ({}): it shares one, without BlueFlame",
            object(), std::strerror(errno));
        return;
    }
    ibv_parent_domain_init_attr parent_attributes{};
    parent_attributes.pd = port_->domain.get();
    parent_attributes.td = thread_domain_.get();
    parent_domain_.reset(ibv_alloc_parent_domain(port_->context.get(), &parent_attributes));
    if (parent_domain_ == nullptr) throw call_error(object(), "ibv_alloc_parent_domain", errno);
}

void QueuePair::make_queue(const QueuePairOptions& options) {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    // rdma-core counts requests of the largest size that it may be asked for; this library posts by
    // itself and counts blocks. So it is told of requests of one block, and as many.
    attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    attributes.pd = parent_domain_ != nullptr ? parent_domain_.get() : port_->domain.get();
    attributes.send_cq =
        own_completion_queue<CompletionQueue>(options.send_completions, "send_completions").get();
    attributes.recv_cq =
        own_completion_queue<CompletionQueue>(options.receive_completions, "receive_completions")
            .get();
    attributes.cap.max_send_wr = std::max(options.send_blocks, 1U);
    attributes.cap.max_send_sge = 1;
    attributes.srq = own_shared_receives<SharedReceiveQueue>(options.shared_receives);
    if (attributes.srq == nullptr) {
        attributes.cap.max_recv_wr = std::max(options.receive_entries, 1U);
        // The shortest receive queue has 64 bytes: longer entries, not more of them.
        attributes.cap.max_recv_sge = std::max(
            {options.max_receive_elements, 1U, kShortestQueueUnits / attributes.cap.max_recv_wr});
    }
    mlx5dv_qp_init_attr extra{};
    // Data always goes to memory, never into the completion: receivers look there.
    extra.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    extra.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
    queue_.reset(mlx5dv_create_qp(port_->context.get(), &attributes, &extra));
    if (queue_ == nullptr) throw call_error(object(), "mlx5dv_create_qp", errno);
}

void QueuePair::make_view(const QueuePairOptions& options) {
    mlx5dv_qp facts{};
    mlx5dv_obj object_out{};
    object_out.qp.in = queue_.get();
    object_out.qp.out = &facts;
    if (const int cause = mlx5dv_init_obj(&object_out, MLX5DV_OBJ_QP); cause != 0)
        throw call_error(object(), "mlx5dv_init_obj", cause);
    if (facts.sq.stride != mlx5::kBlockBytes)
        throw Error(Errc::unsupported, object(),
                    fmt::format("its send blocks have {} bytes", facts.sq.stride),
                    "set data_path = \"verbs\" in [device], which does without its layout");
    view_.send_buffer = static_cast<std::byte*>(facts.sq.buf);
    view_.send_blocks = facts.sq.wqe_cnt;
    if (view_.send_blocks != std::bit_ceil(std::max(options.send_blocks, 1U)))
        throw Error(Errc::unsupported, object(),
                    fmt::format("rdma-core made {} send blocks of {} asked for: its completion "
                                "queue could overrun",
                                view_.send_blocks, options.send_blocks),
                    "ask for a power of two of send blocks");
    if (options.shared_receives == nullptr) {
        view_.receive_buffer = static_cast<std::byte*>(facts.rq.buf);
        view_.receive_entries = facts.rq.wqe_cnt;
        view_.receive_stride_log2 = static_cast<std::uint32_t>(std::countr_zero(facts.rq.stride));
        view_.max_receive_elements = std::max(options.max_receive_elements, 1U);
    }
    view_.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(facts.dbrec);
    view_.doorbell_register = static_cast<volatile std::byte*>(facts.bf.reg);
    // Threads of several queue pairs may ring in a shared register at once: single words do not
    // mix.
    view_.blueflame_bytes = thread_domain_ != nullptr ? facts.bf.size : 0;
    view_.number = queue_->qp_num;
    view_.max_inline_bytes = options.max_inline_bytes;
    view_.max_send_elements = options.max_send_elements;
    view_.atomics = port_->atomics.plain;
    view_.masked_atomics = port_->atomics.masked;
    view_.big_endian_results = port_->atomics.big_endian_results;
}

}  // namespace verbatim::rdma
