// Creation of queues that are used through verbs.
#include "verbs_queues.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "messages.hpp"
#include "own_handles.hpp"
#include "queues.hpp"

namespace verbatim::rdma {

VerbsCompletionQueue::VerbsCompletionQueue(std::shared_ptr<Port> port, std::uint32_t entries,
                                           CompletionChannelHandle* channel)
    : port_(std::move(port)), shown_(entries) {
    queue_.reset(ibv_create_cq(port_->context.get(), static_cast<int>(shown_.view().entries),
                               static_cast<CompletionQueueHandle*>(this),
                               own_channel(channel, "RDMA completion queue"), 0));
    if (queue_ == nullptr)
        throw call_error(port_->name + " completion queue", "ibv_create_cq", errno);
    shown_.bind(queue_.get(), channel != nullptr);
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
    : port_(std::move(port)), shown_(options) {
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = shown_.view().entries - 1;
    attributes.attr.max_sge = shown_.view().max_elements;
    queue_.reset(ibv_create_srq(port_->domain.get(), &attributes));
    if (queue_ == nullptr)
        throw call_error(port_->name + " shared receive queue", "ibv_create_srq", errno);
    shown_.bind(queue_.get());
}

VerbsQueuePair::VerbsQueuePair(std::shared_ptr<Port> port, const QueuePairOptions& options)
    : QueuePairStates(std::move(port), options), shown_(options, port_->atomics.plain) {
    ring_.reset(ibv_reg_mr(port_->domain.get(), shown_.view().send_buffer, shown_.send_bytes(), 0));
    if (ring_ == nullptr)
        throw registration_error(shown_.send_bytes(), errno, current_memory_limits());
    const ibv_qp_cap given = make_queue(options);
    shown_.bind({.queue_pair = queue_.get(),
                 .send_completions = &own_completion_queue<VerbsCompletionQueue>(
                                          options.send_completions, "send_completions")
                                          .translator(),
                 .receive_completions = &own_completion_queue<VerbsCompletionQueue>(
                                             options.receive_completions, "receive_completions")
                                             .translator(),
                 .keys = &port_->keys,
                 .ring_key = ring_->lkey,
                 .inline_bytes = given.max_inline_data,
                 .max_elements = given.max_send_sge});
}

ibv_qp_cap VerbsQueuePair::make_queue(const QueuePairOptions& options) {
    // Payload inside a request may be gathered from the ring, in two pieces where it wraps.
    constexpr std::uint32_t kPieces = 2;
    const auto most = static_cast<std::uint32_t>(port_->attributes.max_sge);
    if (most <= kPieces)
        throw Error(
            Errc::unsupported, object(),
            fmt::format("the device gathers {} elements only, {} are needed", most, kPieces + 1),
            "choose another device with name in [device]");
    shown_.limit_elements(most - kPieces);
    const mlx5::QueuePairView& view = shown_.view();
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq =
        own_completion_queue<VerbsCompletionQueue>(options.send_completions, "send_completions")
            .get();
    attributes.recv_cq = own_completion_queue<VerbsCompletionQueue>(options.receive_completions,
                                                                    "receive_completions")
                             .get();
    attributes.srq = own_shared_receives<VerbsSharedReceiveQueue>(options.shared_receives);
    attributes.cap.max_send_wr = view.send_blocks;  // as many as the ring can hold
    attributes.cap.max_send_sge = view.max_send_elements + kPieces;
    attributes.cap.max_inline_data = options.max_inline_bytes;
    if (attributes.srq == nullptr) {
        attributes.cap.max_recv_wr = view.receive_entries;
        attributes.cap.max_recv_sge = view.max_receive_elements;
    }
    // Where the device takes less inline than that, none will do: the ring is gathered from.
    for (const std::uint32_t inline_bytes : {options.max_inline_bytes, 0U}) {
        ibv_qp_init_attr wanted = attributes;
        wanted.cap.max_inline_data = inline_bytes;
        queue_.reset(ibv_create_qp(port_->domain.get(), &wanted));
        if (queue_ == nullptr) continue;
        wanted.cap.max_send_sge = attributes.cap.max_send_sge;
        return wanted.cap;
    }
    throw call_error(object(), "ibv_create_qp", errno);
}

// What waits for a connection is flushed as well.
void VerbsQueuePair::fail() noexcept {
    QueuePairStates::fail();
    shown_.take_receives();
    shown_.take_requests();
}

void VerbsQueuePair::reset() {
    QueuePairStates::reset();
    shown_.reset();
}

}  // namespace verbatim::rdma
