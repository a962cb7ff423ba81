// Views and hooks.
#include "queues.hpp"

#include <algorithm>

namespace verbatim::verbs {
namespace {

// A hook's function for a translator's.
template <auto kFunction>
struct Hook;
template <class Translator, void (Translator::*kFunction)() noexcept>
struct Hook<kFunction> {
    static void call(void* translator) noexcept {
        (static_cast<Translator*>(translator)->*kFunction)();
    }
};

void doorbell(void* translator, const volatile void* /*half*/) noexcept {
    static_cast<SendTranslator*>(translator)->run();
}

}  // namespace

CompletionQueue::CompletionQueue(std::uint32_t entries)
    : memory_(std::max(entries, 1U), sizeof(mlx5::Cqe), 0) {}

void CompletionQueue::bind(ibv_cq* queue, bool has_channel) {
    mlx5::CompletionQueueView& view = memory_.view();
    view.number = queue->handle;
    translator_.emplace(queue, view);
    view.progress_hook = {Hook<&CompletionTranslator::progress>::call, &*translator_};
    view.arm_hook = {Hook<&CompletionTranslator::arm>::call, &*translator_};
    if (!has_channel) view.doorbell_register = nullptr;  // cannot be armed
}

SharedReceiveQueue::SharedReceiveQueue(const SharedReceiveQueueOptions& options)
    : memory_(options, 0), view_(memory_.view()) {}

void SharedReceiveQueue::bind(ibv_srq* queue) {
    view_.number = queue->handle;
    translator_.emplace(view_, queue);
    view_.receive_hook = {Hook<&SharedReceiveTranslator::run>::call, &*translator_};
}

QueuePair::QueuePair(const QueuePairOptions& options, bool atomics) : memory_(options, 0) {
    mlx5::QueuePairView& view = memory_.view();
    view.atomics = atomics;
    view.masked_atomics = false;  // verbs has none
    view.big_endian_results = 0;  // a device that says it has atomics answers in host order
}

void QueuePair::limit_elements(std::uint32_t most) noexcept {
    mlx5::QueuePairView& view = memory_.view();
    view.max_send_elements = std::min(view.max_send_elements, most);
}

void QueuePair::bind(const Parts& parts) {
    mlx5::QueuePairView& view = memory_.view();
    view.number = parts.queue_pair->qp_num;
    send_.emplace(SendTranslator::Parts{.view = view,
                                        .queue_pair = parts.queue_pair,
                                        .completions = parts.send_completions,
                                        .keys = parts.keys,
                                        .ring_key = parts.ring_key,
                                        .inline_bytes = parts.inline_bytes,
                                        .max_elements = parts.max_elements});
    view.doorbell_hook = {doorbell, &*send_};
    if (view.receive_entries == 0) return;
    receive_.emplace(view, parts.queue_pair, *parts.receive_completions);
    view.receive_hook = {Hook<&ReceiveTranslator::run>::call, &*receive_};
}

void QueuePair::take_receives() noexcept {
    if (receive_) receive_->open();
}

void QueuePair::reset() noexcept {
    send_->reset();
    if (receive_) receive_->reset();
    memory_.clear();
}

}  // namespace verbatim::verbs
