// Claims of peers, and the ring that they write.
#include "connection_setup.hpp"

#include <fmt/format.h>

namespace verbatim::softnic {

// Under mutex_.
void ConnectionSetup::claim(const QueuePairPeer& peer) {
    if (peer_.has_value() && *peer_ != peer)
        throw Error(
            Errc::invalid_argument, fmt::format("queue pair {}", shared_.traits.number),
            fmt::format("it already belongs to a connection with queue pair {}", peer_->number),
            "use one queue pair per connection, or reset() it first");
    peer_ = peer;
}

void ConnectionSetup::expect(const QueuePairPeer& peer) {
    const std::lock_guard lock(mutex_);
    if (!shared_.is(QueuePairState::reset))
        throw Error(Errc::invalid_argument, fmt::format("queue pair {}", shared_.traits.number),
                    "it is connected already", "reset() it first");
    claim(peer);
}

void ConnectionSetup::open_ring(const Nonce& peer) {
    const std::lock_guard lock(mutex_);
    make_ring(peer);
}

void ConnectionSetup::accept(const QueuePairPeer& peer) noexcept {
    const std::lock_guard lock(mutex_);
    peer_ = peer;
    shared_.state.store(QueuePairState::ready_to_receive, std::memory_order_release);
}

ChannelPlace ConnectionSetup::admit(const LinkPeer& asking, std::uint32_t from) {
    const QueuePairPeer peer{asking.session.nonce, from};
    const std::lock_guard lock(mutex_);
    const auto refuse = [this](Errc code, const char* why) {
        throw Error(code, fmt::format("queue pair {}", shared_.traits.number), why);
    };
    if (closed_) refuse(Errc::connection_refused, "it is being reset");
    if (shared_.is(QueuePairState::error)) refuse(Errc::peer_lost, "it is in the error state");
    if (shared_.traits.follows_verbs && peer_ != peer)
        refuse(Errc::connection_refused, "it does not receive from that queue pair (yet)");
    claim(peer);
    make_ring(peer.nonce);
    claimed_by_peer_ = true;
    shared_.access->set_writer(asking.process);
    ChannelPlace place = shared_.connection.incoming.lend(asking.process);
    if (asking.same_user) open_door(asking.session.id);
    if (door_ != nullptr) {
        place.door = door_->number();
        place.waker = door_->file();
    }
    return place;
}

// Only where one queue has the completions of both directions: they have their sleeps in common.
void ConnectionSetup::open_door(std::uint64_t session) {
    CompletionQueue& completions = turns_.receive_completions();
    if (!completions.may_sleep() || &completions != &turns_.send_completions()) return;
    if (door_ == nullptr || door_->session() != session)
        door_ = completions.channel()->door_for(session);
}

// A ring that nobody has taken yet goes with the door: so the thread is woken here.
void ConnectionSetup::end_session(std::uint64_t session) noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (door_ == nullptr || door_->session() != session) return;
        door_ = nullptr;
    }
    turns_.wake();
}

void ConnectionSetup::bind(std::shared_ptr<Link> link, ChannelSender outgoing,
                           std::shared_ptr<const WakeFile> waker) noexcept {
    const std::lock_guard lock(mutex_);
    QueuePairConnection& connection = shared_.connection;
    connection.link = std::move(link);
    connection.sender = connection.link;
    connection.peer_number = peer_->number;
    connection.outgoing = std::move(outgoing);
    connection.waker = std::move(waker);
}

// Under mutex_, in the states reset and initialized: nobody looks at the ring yet.
void ConnectionSetup::make_ring(const Nonce& peer) {
    if (shared_.connection.incoming) return;
    terms_.ring_bytes = supply_.take_bytes(carries_messages_);
    try {
        ChannelReceiver fresh(supply_.slabs().take(peer, terms_.bytes()), terms_);
        auto word = shared_.access->watch(fresh);
        try {
            turns_.attention().listen_to(fresh);
        } catch (...) {
            shared_.access->withdraw(word);
            throw;
        }
        shared_.access->exchange_ring(std::move(word));
        shared_.connection.incoming = std::move(fresh);
    } catch (...) {
        supply_.give_back_bytes(terms_.ring_bytes);
        throw;
    }
    shared_.connection.has_incoming.store(true);
    turns_.tell_sleep(turns_.receive_completions());
}

void ConnectionSetup::refuse_callers(bool refuse) noexcept {
    const std::lock_guard lock(mutex_);
    closed_ = refuse;
}

void ConnectionSetup::withdraw() noexcept {
    if (close_unclaimed()) drop_ring();
}

// False: the peer was given the ring.
bool ConnectionSetup::close_unclaimed() noexcept {
    const std::lock_guard lock(mutex_);
    if (claimed_by_peer_) return false;
    peer_.reset();
    closed_ = true;
    return true;
}

// After close_unclaimed(). Rounds are waited for, without the lock: control threads take it, for
// which rounds may wait.
void ConnectionSetup::drop_ring() noexcept {
    if (shared_.connection.incoming) {
        turns_.attention().close();
        shared_.connection.has_incoming.store(false);
        Leaving done;
        turns_.attention().listen_no_more(shared_.connection.incoming, done);
        // No peer was given it: nobody is waited for.
        shared_.access->withdraw(shared_.access->exchange_ring(nullptr));
        forget_ring();
        turns_.attention().stay_hot();
    }
    refuse_callers(false);
}

void ConnectionSetup::forget_ring() noexcept {
    QueuePairConnection& connection = shared_.connection;
    if (!connection.incoming) return;
    connection.has_incoming.store(false);
    connection.incoming = {};
    supply_.give_back_bytes(terms_.ring_bytes);
}

std::shared_ptr<AccessWord> ConnectionSetup::forget_peer() noexcept {
    const std::lock_guard lock(mutex_);
    QueuePairConnection& connection = shared_.connection;
    connection.incoming.set_state(ReceiverState::closed);
    connection.wake_peer();
    if (connection.sender != nullptr) connection.sender->ring_bell();
    connection.woken_receiver = connection.woken_sender = 0;
    connection.rung.store(0);
    shared_.state.store(QueuePairState::reset, std::memory_order_release);
    auto ring = shared_.access->exchange_ring(nullptr);
    streams_.forget();
    forget_ring();
    connection.admitted.store(0, std::memory_order_relaxed);
    shared_.limits.paused.store(false);
    shared_.limits.report_drained.store(false);
    connection.outgoing = {};
    connection.waker = nullptr;
    connection.link = nullptr;
    connection.sender = nullptr;
    shared_.sources.clear();
    shared_.failure.text.clear();
    shared_.failure.first_syndrome = kNoSyndrome;
    peer_.reset();
    claimed_by_peer_ = false;
    door_ = nullptr;
    return ring;
}

std::optional<std::uint32_t> ConnectionSetup::peer_number() const {
    const std::lock_guard lock(mutex_);
    return peer_ ? std::optional(peer_->number) : std::nullopt;
}

void ConnectionSetup::set_allowed(Access allowed) noexcept {
    const std::lock_guard lock(mutex_);
    terms_.allowed = allowed;
    shared_.limits.allowed.store(allowed, std::memory_order_relaxed);
    if (shared_.connection.incoming) shared_.connection.incoming.set_allowed(allowed);
}

void ConnectionSetup::set_not_ready_for(std::chrono::nanoseconds time) noexcept {
    const std::lock_guard lock(mutex_);
    terms_.not_ready_for = time;
    if (shared_.connection.incoming) shared_.connection.incoming.set_not_ready_for(time);
}

}  // namespace verbatim::softnic
