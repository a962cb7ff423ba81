// The states through which verbs take a queue pair, the ways of datagrams, and an XRC target's
// place in its domain. Control path.
#include <fmt/format.h>

#include "queue_pair.hpp"

namespace verbatim::softnic {

void QueuePair::initialize() noexcept {
    shared_.state.store(QueuePairState::initialized, std::memory_order_release);
}

void QueuePair::receive_from(const Peer& peer) {
    const auto domain_held = hold_domain();
    if (!shared_.datagrams()) {
        const std::lock_guard lock(mutex_);
        make_ring(peer.nonce);
    }
    // Before the peer is given the ring: its first request may name one, and touch memory there.
    if (xrc_domain_ != nullptr) xrc_domain_->name_queues(*this);
    {
        const std::lock_guard lock(mutex_);
        peer_ = peer;
        shared_.state.store(QueuePairState::ready_to_receive, std::memory_order_release);
    }
    heat();
}

void QueuePair::send_datagrams() noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (shared_.is(QueuePairState::error)) return;
        shared_.state.store(QueuePairState::ready, std::memory_order_release);
    }
    execute();
}

void QueuePair::add_flow(std::uint32_t number, std::shared_ptr<Link> link,
                         ChannelSender ring) noexcept {
    send_gate_.enter_waiting();
    send_->datagrams().add_flow(number, std::move(link), std::move(ring));
    send_gate_.leave_for_good();
    execute();
}

void QueuePair::refuse_flow(std::uint32_t number, bool absent) noexcept {
    send_gate_.enter_waiting();
    send_->datagrams().refuse_flow(number, absent);
    send_gate_.leave_for_good();
    execute();
}

// The gate keeps the list; mutex_ may be held by who is inside.
ChannelPlace QueuePair::open_source(const LinkPeer& asking, std::uint32_t from) {
    const PeerSession& peer = asking.session;
    receive_gate_.enter_waiting();
    try {
        if (!shared_.receives() || shared_.sources.frozen())
            throw Error(Errc::connection_refused, fmt::format("queue pair {}", shared_.number),
                        "it does not receive (yet)");
        sweep_sources(std::chrono::steady_clock::now() + kSweepTime);
        if (shared_.sources.size() >= DatagramSources::kMost)
            throw Error(Errc::connection_refused, fmt::format("queue pair {}", shared_.number),
                        fmt::format("{} queue pairs send to it already", DatagramSources::kMost));
        // A whole datagram fits wherever the ring stands.
        ChannelTerms terms = terms_;
        terms.ring_bytes =
            std::max<std::size_t>(core_->options().ring_bytes, 4 * kMaxDatagramBytes);
        DatagramSources::Source& source = shared_.sources.add(
            peer, from, ChannelReceiver(core_->channels().take(peer.device, terms.bytes()), terms));
        listen_to(source);
        source.ring.set_listens(!attention_.hot());
        ChannelPlace place = source.ring.lend(asking.process);
        receive_gate_.leave_for_good();
        return place;
    } catch (...) {
        receive_gate_.leave_for_good();
        throw;
    }
}

// One that cannot be listened to goes with the next sweep.
void QueuePair::listen_to(DatagramSources::Source& source) {
    try {
        listen_to(source.ring);
    } catch (...) {
        source.ended = true;
        source.leaving = {true, lists().size(), false};
        throw;
    }
}

// What is not drained yet is swept when the next sender comes or goes.
void QueuePair::end_session(std::uint64_t session, Instant deadline) noexcept {
    if (!made_.load(std::memory_order_acquire) || !shared_.datagrams()) return;
    receive_gate_.enter_waiting();
    if (!shared_.sources.frozen()) {
        shared_.sources.end(session);
        sweep_sources(deadline);
    }
    receive_gate_.leave_for_good();
    core_->ring_own_bell();  // of what came meanwhile
}

// Inside the receive gate. A poll that lasts longer may wait for another control thread, which may
// wait for this one: then the ring is kept until the next time.
void QueuePair::sweep_sources(Instant deadline) noexcept {
    shared_.sources.sweep([&](DatagramSources::Source& source) {
        return listen_no_more(source.ring, source.leaving, deadline);
    });
}

void QueuePair::acknowledge_to(std::shared_ptr<Link> link) noexcept {
    receive_gate_.enter_waiting();
    if (shared_.receives()) shared_.sender = link;
    receive_gate_.leave_for_good();
    link->ring_bell();  // of what was received before
}

// From before detach() until after attach(): no shared receive queue comes or goes meanwhile.
std::unique_lock<std::mutex> QueuePair::hold_domain() const {
    return xrc_domain_ != nullptr ? xrc_domain_->lock() : std::unique_lock<std::mutex>();
}

// Keys of other devices' memory are not known to the peer: it is told of a domain that no key has.
void QueuePair::name_queue(const XrcQueue& queue) noexcept {
    constexpr std::uint32_t kNoDomain = ~std::uint32_t{0};
    const std::lock_guard lock(mutex_);
    if (!shared_.incoming) return;
    shared_.incoming.name_queue(queue.list->number(),
                                queue.device == core_.get() ? queue.list->domain() : kNoDomain);
    shared_.access->receive_for(queue.device->keys().accesses(), &queue);
}

void QueuePair::forget_queue(const XrcQueue& queue) noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (shared_.incoming) shared_.incoming.forget_queue(queue.list->number());
    }
    receive_gate_.enter_waiting();
    receive_->forget_queue(queue);
    receive_gate_.leave_for_good();
    shared_.access->receive_no_more_for(&queue);
}

}  // namespace verbatim::softnic
