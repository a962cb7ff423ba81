// Events of queues and of what is made of them.
#include "objects.hpp"

#include "xrc_objects.hpp"

namespace verbatim::uverbs {

bool CompletionQueue::raise(const CompletionNotifier::Look& look) noexcept {
    if (look.verdict != CompletionNotifier::Verdict::raise)
        return look.verdict == CompletionNotifier::Verdict::expect;
    if (channel_->post(user_handle_, events_)) return false;
    notifier_.postpone(look.arming);
    return true;
}

void SharedQueue::limit_reached(void* self) noexcept {
    auto& queue = *static_cast<SharedQueue*>(self);
    queue.async_events->post(queue.user_handle, AsyncEvent::shared_receives_limit,
                             queue.async_events_sent);
}

bool SharedQueue::join_xrc(OpenXrcDomain& handle, CompletionQueue& queue,
                           softnic::DeviceCore& device, std::uint32_t index) {
    xrc = {&list, &queue.engine(), &device, index};
    if (!handle.domain->engine().add(xrc)) return false;
    xrc_domain = handle.domain;
    open_domain = &handle;
    completions = &queue;
    return true;
}

void SharedQueue::leave_xrc() noexcept {
    if (xrc_domain == nullptr) return;
    xrc_domain->engine().remove(xrc);
    xrc_domain = nullptr;
}

void QueuePair::post(AsyncEvent event) noexcept {
    async_events->post(user_handle, event, async_events_sent);
}

QueuePair::~QueuePair() {
    if (target != nullptr) target->remove_opener(*this);
}

void QueuePair::report(void* self, softnic::QueuePairEvent event) noexcept {
    auto& pair = *static_cast<QueuePair*>(self);
    if (event == softnic::QueuePairEvent::established && !pair.only_receives.load()) return;
    const auto kind = [event] {
        switch (event) {
            case softnic::QueuePairEvent::request_error:
                return AsyncEvent::queue_pair_request_error;
            case softnic::QueuePairEvent::access_error:
                return AsyncEvent::queue_pair_access_error;
            case softnic::QueuePairEvent::last_receive:
                return AsyncEvent::last_receive;
            case softnic::QueuePairEvent::established:
                return AsyncEvent::established;
            case softnic::QueuePairEvent::drained:
                return AsyncEvent::drained;
            case softnic::QueuePairEvent::fatal:
                break;
        }
        return AsyncEvent::queue_pair_fatal;
    }();
    pair.opened_as != nullptr ? pair.opened_as->post(kind) : pair.post(kind);
}

std::uint32_t CompletionQueue::end_events() {
    if (channel_ == nullptr) return 0;
    return events_.load() - channel_->withdraw(user_handle_);
}

}  // namespace verbatim::uverbs
