// Progress, and changes of the list under a walk.
#include "progress_list.hpp"

#include <sched.h>

#include <algorithm>

#include "queue_pair.hpp"

namespace verbatim::softnic {

void ProgressList::progress() noexcept {
    walk([](QueuePair& queue_pair) { queue_pair.progress(); });
}

void ProgressList::attach(QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    auto list = std::make_unique<List>(*list_.load());
    if (std::find(list->begin(), list->end(), &queue_pair) == list->end())
        list->push_back(&queue_pair);
    replace(std::move(list));
}

void ProgressList::detach(const QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    auto list = std::make_unique<List>(*list_.load());
    std::erase(*list, &queue_pair);
    replace(std::move(list));
}

void ProgressList::replace(std::unique_ptr<List> list) noexcept {
    const std::unique_ptr<const List> old(list_.exchange(list.release()));
    const std::uint64_t round = rounds_.load();
    if ((round & 1) == 0) return;
    while (rounds_.load(std::memory_order_acquire) == round) sched_yield();
}

}  // namespace verbatim::softnic
