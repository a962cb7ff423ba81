// Which rounds look at the queue pair, and the rings whose marks bring them to it.
#include "queue_pair.hpp"

namespace verbatim::softnic {

void QueuePair::heat() noexcept {
    if (!attention_.begin_heating()) return;
    set_listens(false);
    attention_.finish_hot();
}

// Whether there is something that nobody else will tell of (attention.hpp).
bool QueuePair::has_work() const noexcept {
    if (receive_->waiting() || send_->waiting()) return true;
    const QueuePairState now = state();
    // The peer's end shows in its own ring only while it does not know of this one.
    const bool unseen = now == QueuePairState::ready && shared_.ends_with_peer &&
                        !shared_.datagrams() && !opened_.load(std::memory_order_relaxed);
    return now == QueuePairState::error || unseen;
}

namespace {

// False: somebody has left a mark for the thread inside.
bool leave(Gate& gate) noexcept {
    if (gate.leave()) return true;
    gate.leave_for_good();
    return false;
}

}  // namespace

// The protocol is attention.hpp's.
void QueuePair::cool() noexcept {
    if (!attention_.begin_cooling()) return;
    if (has_work() || !send_gate_.try_enter()) return attention_.finish_hot();
    if (!receive_gate_.try_enter()) {
        attention_.finish_hot();
        if (!leave(send_gate_)) run_send();
        return;
    }
    set_listens(true);
    attention_.finish_cold();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool found = has_work();
    const bool received = leave(receive_gate_), sent = leave(send_gate_);
    // Done here: the other lists may be looked at by threads that sleep by now.
    if (found) heat();
    if (found || !received) run_receive();
    if (found || !sent) run_send();
}

void QueuePair::set_listens(bool listens) noexcept {
    if (has_ring_.load(std::memory_order_acquire)) shared_.incoming.set_listens(listens);
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

// Under mutex_, likewise.
void QueuePair::drop_ring() noexcept {
    if (!shared_.incoming) return;
    attention_.close();
    Leaving done;
    listen_no_more(shared_.incoming, done);
    // No peer was given it: nobody is waited for.
    shared_.access->withdraw(shared_.access->exchange_ring(nullptr));
    forget_ring();
    attention_.open(listed_);
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
