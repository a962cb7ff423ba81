// Entering and leaving of lists, and listening to rings.
#include "queue_pair_attention.hpp"

#include <algorithm>
#include <array>

namespace verbatim::softnic {

void QueuePairAttention::attach(std::span<ProgressList* const> lists) {
    std::array<Attention::Listed, Attention::kLists> listed;
    std::size_t count = 0;
    try {
        for (ProgressList* const list : lists) {
            listed[count] = {list, list->attach(owner_)};
            ++count;
        }
    } catch (...) {
        while (count != 0) give_up(listed[--count]);
        throw;
    }
    protocol_.set_lists(std::span(listed).first(count));
    protocol_.finish_hot();
}

void QueuePairAttention::give_up(const Attention::Listed& listed) noexcept {
    listed.list->detach(listed.place);
    listed.list->give_back(listed.place);
}

// After close(), and when nothing is listened to any more.
void QueuePairAttention::leave_lists() noexcept {
    const auto lists = protocol_.lists();
    std::array<Attention::Listed, Attention::kLists> listed;
    std::copy(lists.begin(), lists.end(), listed.begin());
    const auto left = std::span(listed).first(lists.size());
    for (const Attention::Listed& one : left) one.list->detach(one.place);
    protocol_.set_lists({});
    // A round of one list could set the bit in another one until here.
    for (const Attention::Listed& one : left) one.list->give_back(one.place);
}

// Rounds come to it before marks are switched off: between the two nothing is missed.
void QueuePairAttention::heat() noexcept {
    if (!protocol_.begin_heating()) return;
    protocol_.set_bits();
    tell_rings(false);
    protocol_.finish_hot();
}

// In a forked child the words are the parent's.
void QueuePairAttention::tell_rings(bool marks_wanted) noexcept {
    if (generation_ != fork_generation()) return;
    if (shared_.connection.has_incoming.load())
        shared_.connection.incoming.set_listens(marks_wanted);
    if (shared_.traits.datagrams()) shared_.sources.set_listens(marks_wanted);
}

void QueuePairAttention::listen_to(const ChannelReceiver& ring) {
    ChannelSlab& slab = *ring.slot().slab();
    const auto lists = protocol_.lists();
    std::size_t added = 0;
    try {
        for (; added != lists.size(); ++added) lists[added].list->add(slab);
        slab.enlist(ring.slot().number(), owner_);
    } catch (...) {
        while (added != 0) lists[--added].list->remove(slab);
        throw;
    }
}

bool QueuePairAttention::listen_no_more(const ChannelReceiver& ring, Leaving& done,
                                        Instant deadline) noexcept {
    ChannelSlab& slab = *ring.slot().slab();
    if (!done.unlisted && !slab.unlist(ring.slot().number(), deadline)) return false;
    done.unlisted = true;
    const auto lists = protocol_.lists();
    for (; done.lists != lists.size(); ++done.lists)
        if (!lists[done.lists].list->remove(slab, done.taken_out, deadline)) return false;
    return true;
}

}  // namespace verbatim::softnic
