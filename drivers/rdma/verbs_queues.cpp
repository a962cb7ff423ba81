// Creation of queues that are used through verbs.
#include "verbs_queues.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "messages.hpp"
#include "queues.hpp"

namespace verbatim::rdma {
namespace {

VerbsCompletionQueue& completion_queue(CompletionQueueHandle* handle, const char* which) {
    auto* const queue = dynamic_cast<VerbsCompletionQueue*>(handle);
    if (queue == nullptr)
        throw Error(Errc::invalid_argument, "RDMA queue pair",
                    fmt::format("{} is missing or belongs to another kind of device", which));
    return *queue;
}

// Null: the queue pair has receives of its own.
ibv_srq* shared_receives(SharedReceiveQueueHandle* handle) {
    if (handle == nullptr) return nullptr;
    auto* const queue = dynamic_cast<VerbsSharedReceiveQueue*>(handle);
    if (queue == nullptr)
        throw Error(Errc::invalid_argument, "RDMA queue pair",
                    "shared_receives belongs to another kind of device");
    return queue->get();
}

ibv_comp_channel* channel_of(CompletionChannelHandle* handle) {
    if (handle == nullptr) return nullptr;
    auto* const channel = dynamic_cast<CompletionChannel*>(handle);
    if (channel == nullptr)
        throw Error(Errc::invalid_argument, "RDMA completion queue",
                    "the channel belongs to another kind of device");
    return channel->get();
}

template <class Translator>
void run(void* translator) noexcept {
    static_cast<Translator*>(translator)->run();
}

}  // namespace

VerbsCompletionQueue::VerbsCompletionQueue(std::shared_ptr<Port> port, std::uint32_t entries,
                                           CompletionChannelHandle* channel)
    : port_(std::move(port)), memory_(std::max(entries, 1U), sizeof(mlx5::Cqe), 0) {
    mlx5::CompletionQueueView& view = memory_.view();
    queue_.reset(ibv_create_cq(port_->context.get(), static_cast<int>(view.entries),
                               static_cast<CompletionQueueHandle*>(this), channel_of(channel), 0));
    if (queue_ == nullptr)
        throw call_error(port_->name + " completion queue", "ibv_create_cq", errno);
    view.number = queue_->handle;
    translator_.emplace(queue_.get(), view);
    view.progress_hook = {[](void* translator) noexcept {
                              static_cast<verbs::CompletionTranslator*>(translator)->progress();
                          },
                          &*translator_};
    view.arm_hook = {[](void* translator) noexcept {
                         static_cast<verbs::CompletionTranslator*>(translator)->arm();
                     },
                     &*translator_};
    if (channel == nullptr) view.doorbell_register = nullptr;  // cannot be armed
}

void VerbsCompletionQueue::resize(std::uint32_t entries) {
    throw Error(Errc::unsupported,
                fmt::format("{} completion queue {}", port_->name, view().number),
                fmt::format("it has {} entries, and a queue that is polled through verbs cannot be "
                            "given {}",
                            view().entries, entries),
                "create it as large as it will ever be");
}

VerbsSharedReceiveQueue::VerbsSharedReceiveQueue(std::shared_ptr<Port> port,
                                                 const SharedReceiveQueueOptions& options)
    : port_(std::move(port)), memory_(options, 0), view_(memory_.view()) {
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = view_.entries - 1;
    attributes.attr.max_sge = view_.max_elements;
    queue_.reset(ibv_create_srq(port_->domain.get(), &attributes));
    if (queue_ == nullptr)
        throw call_error(port_->name + " shared receive queue", "ibv_create_srq", errno);
    view_.number = queue_->handle;
    translator_.emplace(view_, queue_.get());
    view_.receive_hook = {run<verbs::SharedReceiveTranslator>, &*translator_};
}

VerbsQueuePair::VerbsQueuePair(std::shared_ptr<Port> port, const QueuePairOptions& options)
    : QueuePairStates(std::move(port)), memory_(options, 0) {
    mlx5::QueuePairView& view = memory_.view();
    ring_.reset(ibv_reg_mr(port_->domain.get(), view.send_buffer,
                           std::size_t{view.send_blocks} * mlx5::kBlockBytes, 0));
    if (ring_ == nullptr)
        throw registration_error(std::size_t{view.send_blocks} * mlx5::kBlockBytes, errno,
                                 current_memory_limits());
    make_queue(options);
    view.number = queue_->qp_num;
    view.masked_atomics = false;  // verbs has none
    make_translators(options);
}

void VerbsQueuePair::make_queue(const QueuePairOptions& options) {
    const mlx5::QueuePairView& view = memory_.view();
    // Payload inside a request may be gathered from the ring, in two pieces where it wraps.
    max_elements_ = view.max_send_elements + 2;
    const auto most = static_cast<std::uint32_t>(port_->attributes.max_sge);
    if (view.max_send_elements > most)
        throw Error(Errc::unsupported, object(),
                    fmt::format("{} elements are asked for, the device takes {}",
                                view.max_send_elements, most),
                    "ask for fewer");
    max_elements_ = std::min(max_elements_, most);
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = completion_queue(options.send_completions, "send_completions").get();
    attributes.recv_cq = completion_queue(options.receive_completions, "receive_completions").get();
    attributes.srq = shared_receives(options.shared_receives);
    attributes.cap.max_send_wr = view.send_blocks;  // as many as the ring can hold
    attributes.cap.max_send_sge = max_elements_;
    attributes.cap.max_inline_data = options.max_inline_bytes;
    if (attributes.srq == nullptr) {
        attributes.cap.max_recv_wr = view.receive_entries;
        attributes.cap.max_recv_sge = view.max_receive_elements;
    }
    ibv_qp_init_attr wanted = attributes;
    queue_.reset(ibv_create_qp(port_->domain.get(), &wanted));
    if (queue_ == nullptr) {  // the device takes less inline, or none
        wanted = attributes;
        wanted.cap.max_inline_data = 0;
        queue_.reset(ibv_create_qp(port_->domain.get(), &wanted));
    }
    if (queue_ == nullptr) throw call_error(object(), "ibv_create_qp", errno);
    inline_bytes_ = wanted.cap.max_inline_data;
}

void VerbsQueuePair::make_translators(const QueuePairOptions& options) {
    mlx5::QueuePairView& view = memory_.view();
    send_.emplace(verbs::SendTranslator::Parts{
        .view = view,
        .queue_pair = queue_.get(),
        .completions = &completion_queue(options.send_completions, "send_completions").translator(),
        .keys = &port_->keys,
        .ring_key = ring_->lkey,
        .inline_bytes = inline_bytes_,
        .max_elements = max_elements_});
    view.doorbell_hook = {[](void* translator, const volatile void* /*half*/) noexcept {
                              static_cast<verbs::SendTranslator*>(translator)->run();
                          },
                          &*send_};
    if (options.shared_receives != nullptr) return;
    receive_.emplace(
        view, queue_.get(),
        completion_queue(options.receive_completions, "receive_completions").translator());
    view.receive_hook = {run<verbs::ReceiveTranslator>, &*receive_};
}

void VerbsQueuePair::initialized() {
    if (receive_) receive_->open();
}

void VerbsQueuePair::ready() { send_->open(); }

// What waits for a connection is flushed as well.
void VerbsQueuePair::fail() noexcept {
    QueuePairStates::fail();
    if (receive_) receive_->open();
    send_->open();
}

void VerbsQueuePair::reset() {
    send_->reset();
    if (receive_) receive_->reset();
    QueuePairStates::reset();
    memory_.clear();
}

}  // namespace verbatim::rdma
