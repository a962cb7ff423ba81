// When an armed completion queue has its event.
#include "objects.hpp"

#include <verbatim/mlx5/formats.hpp>

#include "xrc_objects.hpp"

namespace verbatim::uverbs {

// The arming word: [31:28] a number that changes with every event, [24] solicited completions only,
// [23:0] what the program had consumed. One event for each word, as soon as there is more than the
// program has consumed by now: what it polls by itself after it armed is worth no event, and
// programs that take one completion for each event rely on that.
bool CompletionQueue::announce(Asks asks) noexcept {
    constexpr std::uint32_t kSolicitedOnly = 1u << 24;
    const mlx5::CompletionQueueView& view = engine_.ring().view();
    if (channel_ == nullptr) return true;
    const std::uint32_t word = softnic::read_record(view.doorbell_record + mlx5::kRecordArm);
    std::uint32_t answered = answered_.load(std::memory_order_relaxed);
    if (word == answered || word == kNeverArmed) return true;
    std::uint32_t consumed = 0;
    const auto unpolled = [&] {
        consumed = softnic::read_record(view.doorbell_record + mlx5::kRecordConsumer);
        return engine_.ring().written_since(consumed & mlx5::kConsumerIndexMask,
                                            (word & kSolicitedOnly) != 0);
    };
    if (!unpolled()) {
        first_at_.store(0, std::memory_order_relaxed);
        unsent_.store(false, std::memory_order_relaxed);
        return true;
    }
    if (too_early((engine_.ring().produced() - consumed) & mlx5::kConsumerIndexMask)) return true;
    if (polls_.load() != 0) return owe();  // who ends the poll asks again
    if (asks == Asks::program ? channel_->still_held() : channel_->held()) {
        if (asks == Asks::nobody) bell_->ring();
        return owe();
    }
    if (!unpolled()) return true;  // it was polled before the hold ended
    if (!answered_.compare_exchange_strong(answered, word)) return true;
    owed_.store(0, std::memory_order_relaxed);
    first_at_.store(0, std::memory_order_relaxed);
    // Without room the event is still owed; the engine thread comes back for it.
    const bool sent = channel_->post(user_handle_, events_);
    if (!sent) answered_.store(answered);
    unsent_.store(!sent, std::memory_order_relaxed);
    if (!sent && asks == Asks::nobody) bell_->ring();
    return true;
}

// What waits is counted from what the program has consumed; the time runs from the moment that
// somebody first saw it.
bool CompletionQueue::too_early(std::uint32_t completions) noexcept {
    const std::uint32_t enough = moderate_completions_.load(std::memory_order_relaxed);
    const std::int64_t period = moderate_ns_.load(std::memory_order_relaxed);
    if (enough == 0 || period == 0 || completions >= enough) [[likely]]
        return false;
    const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count();
    std::int64_t first = 0;
    if (!first_at_.compare_exchange_strong(first, now)) return now - first < period;
    bell_->ring();
    return true;
}

void CompletionQueue::moderate(std::uint32_t completions,
                               std::chrono::nanoseconds period) noexcept {
    moderate_completions_.store(completions);
    moderate_ns_.store(period.count());
}

bool CompletionQueue::owe() noexcept {
    static constinit std::atomic<std::uint64_t> debts{0};
    if (owed() == 0) owed_.store(debts.fetch_add(1) + 1, std::memory_order_relaxed);
    return false;
}

void CompletionQueue::arming() noexcept {
    if (channel_ != nullptr) channel_->note_arming();
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
