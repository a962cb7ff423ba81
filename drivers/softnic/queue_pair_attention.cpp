// Which rounds look at the queue pair, and the rings whose marks bring them to it.
#include "queue_pair.hpp"

namespace verbatim::softnic {
namespace {

// How often in a row a queue pair is looked at in vain before it cools: where few are hot, for some
// tens of microseconds of polls, so that the next message of a conversation needs no mark; where
// many are, soon.
constexpr std::uint32_t kFew = 16, kLongPatience = 1024, kShortPatience = 16;

}  // namespace

void ProgressList::progress() noexcept {
    const bool few = looked_at_.load(std::memory_order_relaxed) <= kFew;
    const std::uint32_t patience = few ? kLongPatience : kShortPatience;
    walk([patience](QueuePair& queue_pair) { queue_pair.progress(patience); });
}

// One whose mark was taken. Its work is done at once, whatever lists it is in: their threads may
// have looked for the mark in vain meanwhile, and sleep.
void ProgressList::heat(QueuePair& queue_pair) noexcept {
    queue_pair.heat();
    queue_pair.progress(kLongPatience);
    queue_pair.ring_for_rest();
}

// Rounds come to it before marks are switched off: between the two nothing is missed.
void QueuePair::heat() noexcept {
    if (!attention_.begin_heating()) return;
    attention_.set_bits();
    set_listens(false);
    attention_.finish_hot();
}

// Another thread may heat it just now: its bits are set by both.
void QueuePair::heat_inside() noexcept {
    heat();
    attention_.set_bits();
}

// The rest is for the next look, which may be that of a thread which sleeps by now.
void QueuePair::leave_to_others(Gate& gate) noexcept {
    if (gate.leave()) return;
    heat_inside();
    gate.leave_for_good();
    core_->ring_own_bell();
    if (send_completions_->may_sleep()) send_completions_->wake();
    if (receive_completions_->may_sleep()) receive_completions_->wake();
}

void QueuePair::ring_for_rest() const noexcept {
    if (must_return() != Return::never) core_->ring_own_bell();
}

// Whether there is something that nobody else will tell of (attention.hpp).
bool QueuePair::has_work() const noexcept {
    if (receive_->waiting() || send_->waiting()) return true;
    const QueuePairState now = state();
    // The peer's end shows in its own ring only while it does not know of this one.
    const bool unseen = now == QueuePairState::ready && shared_.ends_with_peer &&
                        !shared_.datagrams() && !shared_.incoming.attached();
    return now == QueuePairState::error || unseen;
}

// The protocol is attention.hpp's.
void QueuePair::cool() noexcept {
    if (!attention_.begin_cooling()) return;
    if (has_work() || !send_gate_.try_enter()) return attention_.finish_hot();
    if (!receive_gate_.try_enter()) {
        attention_.finish_hot();
        if (!send_gate_.leave_or_drop()) run_send();
        return;
    }
    set_listens(true);
    attention_.finish_cold();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool found = has_work();
    const bool received = receive_gate_.leave_or_drop(), sent = send_gate_.leave_or_drop();
    // Done here: the other lists may be looked at by threads that sleep by now.
    if (found) heat();
    if (found || !received) run_receive();
    if (found || !sent) run_send();
    if (found || !received || !sent) ring_for_rest();
}

// In a forked child the words are the parent's.
void QueuePair::set_listens(bool listens) noexcept {
    if (core_->inherited()) return;
    if (has_ring_.load()) shared_.incoming.set_listens(listens);
    if (shared_.datagrams()) shared_.sources.set_listens(listens);
}

// Each once.
std::vector<ProgressList*> QueuePair::lists() const {
    std::vector<ProgressList*> lists{&send_completions_->list()};
    if (receive_completions_ != send_completions_) lists.push_back(&receive_completions_->list());
    if (progress_ != nullptr) lists.push_back(progress_);
    return lists;
}

void QueuePair::listen_to(const ChannelReceiver& ring) {
    ChannelSlab& slab = *ring.slot().slab();
    const std::vector<ProgressList*> lists = this->lists();
    std::size_t added = 0;
    try {
        for (; added != lists.size(); ++added) lists[added]->add(slab);
        slab.enlist(ring.slot().number(), *this);
    } catch (...) {
        while (added != 0) lists[--added]->remove(slab);
        throw;
    }
}

// False: a round went on until the deadline. To be called again, with what was done.
bool QueuePair::listen_no_more(const ChannelReceiver& ring, Leaving& done,
                               Instant deadline) noexcept {
    ChannelSlab& slab = *ring.slot().slab();
    if (!done.unlisted && !slab.unlist(ring.slot().number(), deadline)) return false;
    done.unlisted = true;
    const std::vector<ProgressList*> lists = this->lists();
    for (; done.lists != lists.size(); ++done.lists)
        if (!lists[done.lists]->remove(slab, done.taken_out, deadline)) return false;
    return true;
}

// Under mutex_, in the states reset and initialized: nobody looks at shared_.incoming yet.
void QueuePair::make_ring(const Nonce& peer) {
    if (shared_.incoming) return;
    terms_.ring_bytes = core_->take_ring_bytes();
    try {
        ChannelReceiver fresh(core_->channels().take(peer, terms_.bytes()), terms_);
        auto word = shared_.access->watch(fresh);
        try {
            listen_to(fresh);
        } catch (...) {
            shared_.access->withdraw(word);
            throw;
        }
        shared_.access->exchange_ring(std::move(word));
        shared_.incoming = std::move(fresh);
    } catch (...) {
        core_->give_back_ring_bytes(terms_.ring_bytes);
        throw;
    }
    has_ring_.store(true);
    tell_sleep(*receive_completions_);
}

// Waits for who is inside with a peer's question: afterwards, until it is allowed again, no ring is
// made or given away.
void QueuePair::refuse_callers(bool refuse) noexcept {
    const std::lock_guard lock(mutex_);
    closed_ = refuse;
}

// False: the peer was given the ring.
bool QueuePair::close_unclaimed() noexcept {
    const std::lock_guard lock(mutex_);
    if (claimed_by_peer_) return false;
    peer_.reset();
    closed_ = true;
    return true;
}

// After close_unclaimed(). Rounds are waited for, without the lock: control threads take it, for
// which rounds may wait.
void QueuePair::drop_ring() noexcept {
    if (shared_.incoming) {
        attention_.close();
        has_ring_.store(false);
        Leaving done;
        listen_no_more(shared_.incoming, done);
        // No peer was given it: nobody is waited for.
        shared_.access->withdraw(shared_.access->exchange_ring(nullptr));
        forget_ring();
        attention_.finish_hot();
    }
    refuse_callers(false);
}

// Nobody listens to it any more.
void QueuePair::forget_ring() noexcept {
    if (!shared_.incoming) return;
    has_ring_.store(false);
    shared_.incoming = {};
    core_->give_back_ring_bytes(terms_.ring_bytes);
}

void QueuePair::set_allowed(Access allowed) noexcept {
    const std::lock_guard lock(mutex_);
    terms_.allowed = allowed;
    if (shared_.incoming) shared_.incoming.set_allowed(allowed);
}

void QueuePair::set_not_ready_for(std::chrono::nanoseconds time) noexcept {
    const std::lock_guard lock(mutex_);
    terms_.not_ready_for = time;
    if (shared_.incoming) shared_.incoming.set_not_ready_for(time);
}

}  // namespace verbatim::softnic
