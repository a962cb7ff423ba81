// Changes of the list under a walk.
#include "progress_list.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace verbatim::softnic {
namespace {

template <class T>
bool count_up(std::vector<std::pair<T*, std::uint32_t>>& counts, T& one) {
    for (auto& [known, times] : counts)
        if (known == &one) return ++times, false;
    counts.emplace_back(&one, 1);
    return true;
}

template <class T>
bool count_down(std::vector<std::pair<T*, std::uint32_t>>& counts, const T& one) {
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& entry) { return entry.first == &one; });
    if (found == counts.end() || --found->second != 0) return false;
    counts.erase(found);
    return true;
}

}  // namespace

// In a forked child: the marks are the parent's, and all is to be flushed.
void ProgressList::heat_copies() noexcept {
    if (!std::exchange(copies_hot_, true)) hot_.set_all();
}

HotSet::Place ProgressList::attach(QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    return hot_.add(queue_pair);
}

void ProgressList::detach(const HotSet::Place& place) {
    {
        const std::lock_guard lock(mutex_);
        hot_.remove(place);
    }
    wait_for_round();
}

void ProgressList::give_back(const HotSet::Place& place) {
    const std::lock_guard lock(mutex_);
    hot_.give_back(place);
}

void ProgressList::add(ChannelSlab& slab) {
    const std::lock_guard lock(mutex_);
    if (!count_up(slabs_, slab)) return;
    try {
        slab.add_reader(*this);
        publish();
    } catch (...) {
        slab.remove_reader(*this);
        count_down(slabs_, slab);
        throw;
    }
}

void ProgressList::remove(ChannelSlab& slab) {
    bool taken_out = false;
    remove(slab, taken_out, Instant::max());
}

bool ProgressList::remove(ChannelSlab& slab, bool& taken_out, Instant deadline) {
    if (!taken_out) {
        const std::lock_guard lock(mutex_);
        if (!count_down(slabs_, slab)) return true;
        publish();
        taken_out = true;
    }
    if (!wait_for_round(deadline)) return false;
    slab.remove_reader(*this);
    taken_out = false;
    return true;
}

void ProgressList::add(ProgressList& list) {
    const std::lock_guard lock(mutex_);
    if (count_up(lists_, list)) publish();
}

void ProgressList::remove(ProgressList& list) {
    {
        const std::lock_guard lock(mutex_);
        if (!count_down(lists_, list)) return;
        publish();
    }
    wait_for_round();
}

// Nothing waits for a round under the lock, and who adds never does: a round may wait for the peer,
// whose control thread may wait for this one's.
void ProgressList::publish() {
    auto fresh = std::make_unique<Sources>();
    for (const auto& [slab, times] : slabs_) fresh->slabs.push_back(slab);
    for (const auto& [list, times] : lists_) fresh->lists.push_back(list);
    retired_.reserve(retired_.size() + 1);
    retired_.emplace_back(sources_.exchange(fresh.release()));
    if ((rounds_.load() & 1) == 0) retired_.clear();
}

bool ProgressList::wait_for_round(Instant deadline) const noexcept {
    const std::uint64_t round = rounds();
    if ((round & 1) == 0) return true;
    while (rounds_.load(std::memory_order_acquire) == round) {
        if (deadline != Instant::max() && std::chrono::steady_clock::now() >= deadline)
            return false;
        sched_yield();
    }
    return true;
}

}  // namespace verbatim::softnic
