// Turns of the responder, and the order in which records are received.
#include "receive_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {
// Records per call: a poll of a busy queue must come back to its caller.
constexpr int kRecordsPerRun = 64;
}  // namespace

ReceiveEngine::ReceiveEngine(const mlx5::QueuePairView& view, SharedReceiveList* list,
                             CompletionRing& completions, KeyTable& keys,
                             QueuePairShared& shared) noexcept
    : shared_(&shared),
      entries_(view, list, completions, keys, shared),
      message_(shared),
      sender_(shared),
      one_sided_(shared),
      datagrams_(shared),
      xrc_(shared) {}

void ReceiveEngine::reset() noexcept {
    give_back();
    revocation_.reset();
    entries_.reset();
    sender_.reset();
    one_sided_.reset();
    message_.begin();
    in_message_ = dropping_ = placed_ = established_ = false;
    last_reported_.store(false, std::memory_order_relaxed);
    counted_not_ready_.store(false, std::memory_order_relaxed);
    if (shared_->traits.xrc_domain != nullptr) xrc_.reset(entries_);
}

void ReceiveEngine::run() noexcept {
    if (shared_->traits.datagrams())
        datagrams_.run(entries_, message_, counts_);
    else if (shared_->receives())
        run_connected();
    if (sender_.received() && !established_) [[unlikely]]
        report_state();
    // The sender may sleep until its requests are complete, or until there is room for more.
    sender_.ring_if_received();
    if (shared_->is(QueuePairState::error)) flush();
    if (entries_.written() != nullptr) XrcSelection::announce(entries_);
}

void ReceiveEngine::run_connected() noexcept {
    ChannelReceiver& incoming = shared_->connection.incoming;
    // Asked first: when a lost peer's ring is then found empty, nothing more can come.
    const bool lost = shared_->traits.ends_with_peer() && shared_->connection.peer_lost();
    for (int budget = kRecordsPerRun; budget != 0 && shared_->receives(); --budget) {
        if (!admitted()) break;
        RecordHeader record;
        const std::byte* payload = nullptr;
        const auto peek = incoming.peek(record, payload);
        if (peek == ChannelReceiver::Peek::nothing) {
            if (lost) shared_->enter_error();
            if (peer_failed()) [[unlikely]]
                refuse_peers_request();
            break;
        }
        if (peek == ChannelReceiver::Peek::broken) {
            shared_->failure.text.set("the peer wrote a malformed record");
            entries_.fail(Syndrome::local_queue_pair, Syndrome::remote_invalid);
        } else if (!deliver(record, payload)) {
            break;
        }
    }
    sender_.wake();
}

// The next record may be received (QueuePairConnection::admitted), or there is none.
bool ReceiveEngine::admitted() const noexcept {
    const QueuePairConnection& connection = shared_->connection;
    return !shared_->traits.orders_answers ||
           connection.incoming.consumed() < connection.admitted.load(std::memory_order_acquire) ||
           !connection.incoming.pending();
}

void ReceiveEngine::flush() noexcept {
    sender_.ring();
    if (!entries_.shared()) return entries_.flush_own();
    give_back();
    if (!entries_.held() && !last_reported_.exchange(true))
        shared_->failure.report(QueuePairEvent::last_receive);
}

// A receive's, or what an atomic operation names.
void ReceiveEngine::recover(const void* address) noexcept {
    message_.access().recover();
    shared_->failure.text.set("memory at {} is registered and not there (any more)", address);
    if (in_message_ || shared_->traits.datagrams()) {
        entries_.fail(Syndrome::local_protection, Syndrome::remote_operation);
    } else {
        entries_.fail(Syndrome::flushed, Syndrome::remote_access);
        shared_->failure.report(QueuePairEvent::access_error);
    }
    run();
}

// A message has come.
void ReceiveEngine::report_state() noexcept {
    established_ = true;
    if (shared_->is(QueuePairState::ready_to_receive))
        shared_->failure.report(QueuePairEvent::established);
}

// All that the peer sent before has been received.
void ReceiveEngine::refuse_peers_request() noexcept {
    const bool access =
        shared_->connection.incoming.fault() == static_cast<std::uint32_t>(Syndrome::remote_access);
    shared_->failure.text.set("the peer asked for what it may not");
    shared_->enter_error();
    shared_->failure.report(access ? QueuePairEvent::access_error : QueuePairEvent::request_error);
}

// False: stop for now (no receive posted, or the queue pair failed).
bool ReceiveEngine::deliver(const RecordHeader& record, const std::byte* payload) noexcept {
    if (dropping_) return drop(record);
    if ((record.flags & kFillerRecord) != 0) {
        shared_->connection.incoming.release(record);
        return true;
    }
    if (!placed_) {
        if (!continues(record)) return false;
        if ((record.flags & kQueueRecord) != 0) {
            const bool named = xrc_.name(entries_, record);
            if (named) sender_.note_release();
            return named;
        }
        if (shared_->traits.xrc_domain != nullptr && !in_message_ && !xrc_.choose(entries_))
            return false;
        if ((record.flags & (kAtomicRecord | kPutRecord | kGetRecord)) != 0)
            return execute(record, payload);
        if (!in_message_ && !begin()) return !shared_->traits.reliable() && drop(record);
        if ((record.flags & kWriteRecord) == 0 && !message_.place(entries_, record, payload))
            return !shared_->traits.reliable() && drop(record);
    }
    sender_.note_received();
    if ((record.flags & kLastRecord) != 0 && !finish(record)) return false;
    shared_->connection.incoming.release(record);
    sender_.note_release();
    return true;
}

// False: the queue pair failed.
bool ReceiveEngine::continues(const RecordHeader& record) noexcept {
    if (in_message_ != ((record.flags & kFirstRecord) != 0)) [[likely]]
        return true;
    shared_->failure.text.set("the peer's records do not form whole messages");
    entries_.fail(Syndrome::local_queue_pair, Syndrome::remote_invalid);
    return false;
}

// The message of an unreliable connection goes no further; its receive stays for the next one.
bool ReceiveEngine::drop(const RecordHeader& record) noexcept {
    if (shared_->is(QueuePairState::error)) return false;
    in_message_ = false;
    dropping_ = (record.flags & kLastRecord) == 0;
    shared_->connection.incoming.release(record);
    return true;
}

bool ReceiveEngine::execute(const RecordHeader& record, const std::byte* payload) noexcept {
    using Outcome = OneSidedRequests::Outcome;
    const bool atomic = (record.flags & kAtomicRecord) != 0;
    AccessSequence& access = message_.access();
    const Outcome outcome = atomic ? one_sided_.execute_atomic(entries_, access, record, payload)
                                   : one_sided_.copy(entries_, access, record, payload);
    if (outcome == Outcome::dropped) return drop(record);
    if (outcome == Outcome::refused) return false;
    sender_.note_received();
    sender_.note_release();
    return true;
}

// Takes the next posted receive.
bool ReceiveEngine::begin() noexcept {
    using Taken = ReceiveEntries::Taken;
    if (!entries_.held()) {
        if (shared_->connection.incoming.given_up()) return false;
        const Taken taken = entries_.take();
        if (taken == Taken::broken) {
            entries_.fail(Syndrome::local_queue_pair, Syndrome::remote_operation);
            return false;
        }
        if (taken == Taken::nothing) return count_not_ready();
        counted_not_ready_.store(false, std::memory_order_relaxed);
    }
    in_message_ = true;
    message_.begin();
    return true;
}

// Receiver not ready: the message waits in the ring, without limit.
bool ReceiveEngine::count_not_ready() noexcept {
    if (!not_ready()) {
        shared_->connection.incoming.count_not_ready();
        // Its sender may sleep, and does not wait for ever.
        sender_.ring();
    }
    counted_not_ready_.store(true, std::memory_order_relaxed);
    return false;
}

// The last record of a message was placed. False: to be tried again, or the queue pair failed.
bool ReceiveEngine::finish(const RecordHeader& record) noexcept {
    if ((record.flags & kHasInvalidate) != 0 && !invalidate(record)) return false;
    if (!message_.complete(entries_, record)) return false;
    in_message_ = false;
    counts_.add_message((record.flags & kWriteRecord) != 0 ? record.total : message_.bytes());
    return true;
}

// Before the message is completed: its receiver may rely on it that the key is gone.
bool ReceiveEngine::invalidate(const RecordHeader& record) noexcept {
    const std::uint32_t key = mlx5::be32::from_raw(record.immediate).native();
    KeyTable& keys = *entries_.source().keys;
    const std::uint32_t number = shared_->traits.number;
    FailureText& failure = shared_->failure.text;
    KeyUpdate update = revocation_.begun() ? revocation_.look(failure)
                                           : keys.windows().invalidate(key, number, failure);
    if (update == KeyUpdate::revoked) update = revocation_.begin(keys, number, failure);
    placed_ = update == KeyUpdate::busy;
    if (update == KeyUpdate::refused)
        entries_.fail(Syndrome::local_access, Syndrome::remote_access);
    return update == KeyUpdate::done;
}

}  // namespace verbatim::softnic
