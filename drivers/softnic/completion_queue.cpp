// Progress on empty polls, and the list it walks.
#include "completion_queue.hpp"

#include <sched.h>

#include <algorithm>

#include "queue_pair.hpp"

namespace verbatim::softnic {

CompletionQueue::CompletionQueue(std::uint32_t entries, std::uint32_t entry_bytes,
                                 std::uint32_t number, bool parked)
    : memory_(entries, entry_bytes, number), ring_(memory_.view()), list_(new List) {
    if (!parked) memory_.view().progress_hook = {progress_hook, this};
}

CompletionQueue::~CompletionQueue() { delete list_.load(std::memory_order_relaxed); }

void CompletionQueue::progress_hook(void* self) noexcept {
    static_cast<CompletionQueue*>(self)->progress();
}

void CompletionQueue::progress() noexcept {
    std::uint64_t round = rounds_.load(std::memory_order_relaxed);
    if ((round & 1) != 0) return;
    // Sequentially consistent, as are the accesses in replace(): either this round is seen there,
    // or the new list is seen here.
    if (!rounds_.compare_exchange_strong(round, round + 1)) return;
    for (QueuePair* const queue_pair : *list_.load()) queue_pair->progress();
    rounds_.store(round + 2, std::memory_order_release);
}

void CompletionQueue::attach(QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    auto list = std::make_unique<List>(*list_.load());
    if (std::find(list->begin(), list->end(), &queue_pair) == list->end())
        list->push_back(&queue_pair);
    replace(std::move(list));
}

void CompletionQueue::detach(const QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    auto list = std::make_unique<List>(*list_.load());
    std::erase(*list, &queue_pair);
    replace(std::move(list));
}

void CompletionQueue::replace(std::unique_ptr<List> list) noexcept {
    const std::unique_ptr<const List> old(list_.exchange(list.release()));
    const std::uint64_t round = rounds_.load();
    if ((round & 1) == 0) return;
    while (rounds_.load(std::memory_order_acquire) == round) sched_yield();
}

}  // namespace verbatim::softnic
