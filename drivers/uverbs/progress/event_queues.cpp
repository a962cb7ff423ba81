// Sums and late events.
#include "event_queues.hpp"

#include <algorithm>

namespace verbatim::uverbs {

void EventQueues::add(CompletionQueue& queue) {
    const std::lock_guard lock(mutex_);
    queues_.push_back(&queue);
}

void EventQueues::remove(const CompletionQueue& queue) {
    const std::lock_guard lock(mutex_);
    std::erase(queues_, &queue);
}

std::uint64_t EventQueues::completions(bool with_events) noexcept {
    std::uint64_t sum = 0;
    const std::lock_guard lock(mutex_);
    for (CompletionQueue* const queue : queues_)
        if (!with_events || queue->channel() != nullptr) sum += queue->engine().ring().produced();
    return sum;
}

// A program may arm its queue without a call that we see.
void EventQueues::raise() noexcept {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    due_ = Clock::time_point::max();
    for (CompletionQueue* const queue : queues_)
        if (queue->channel() != nullptr) due_ = std::min(due_, queue->announce_late(now));
}

}  // namespace verbatim::uverbs
