// Delivery of arrived records into posted receives. Which receives those are: receive_entries.cpp.
#include "receive_engine.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <verbatim/driver/log.hpp>

#include "entry_data.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {
// Records per call: a poll of a busy queue must come back to its caller.
constexpr int kRecordsPerRun = 64;
}  // namespace

ReceiveEngine::ReceiveEngine(const mlx5::QueuePairView& view, SharedReceiveList* list,
                             CompletionRing& completions, KeyTable& keys,
                             QueuePairShared& shared) noexcept
    : view_(view),
      shares_receives_(list != nullptr || shared.traits.xrc_domain != nullptr),
      list_(list),
      completions_(&completions),
      shared_(&shared),
      keys_(&keys),
      // What waits in a shared queue is of that queue's domain.
      local_(keys.view(), shared.failure.text,
             list != nullptr ? list->domain() : shared.traits.domain) {
    access_.bind(shared.access->receive_word(), !shared.access->barriers());
}

void ReceiveEngine::reset() noexcept {
    give_back();
    revocation_.reset();
    holds_entry_.store(false, std::memory_order_relaxed);
    head_.store(0, std::memory_order_relaxed);
    in_message_ = dropping_ = placed_ = moved_ = established_ = false;
    last_reported_.store(false, std::memory_order_relaxed);
    owes_wake_.store(false, std::memory_order_relaxed);
    counted_not_ready_.store(false, std::memory_order_relaxed);
    received_ = atomics_ = 0;
    first_error_ = Syndrome::flushed;
    if (shared_->traits.xrc_domain == nullptr) return;
    announce();
    leave_queue();
    queue_number_ = 0;
}

void ReceiveEngine::run() noexcept {
    if (shared_->traits.datagrams()) {
        run_datagrams();
    } else if (shared_->receives()) {
        // Asked first: when a lost peer's ring is then found empty, nothing more can come.
        const bool lost = shared_->traits.ends_with_peer() && shared_->connection.peer_lost();
        for (int budget = kRecordsPerRun; budget != 0 && shared_->receives(); --budget) {
            if (shared_->traits.orders_answers &&
                shared_->connection.incoming.consumed() >=
                    shared_->connection.admitted.load(std::memory_order_acquire) &&
                shared_->connection.incoming.pending())
                break;
            RecordHeader record;
            const std::byte* payload = nullptr;
            const auto peek = shared_->connection.incoming.peek(record, payload);
            if (peek == ChannelReceiver::Peek::nothing) {
                if (lost) shared_->enter_error();
                if (peer_failed()) [[unlikely]]
                    refuse_peers_request();
                break;
            }
            if (peek == ChannelReceiver::Peek::broken) {
                shared_->failure.text.set("the peer wrote a malformed record");
                fail(Syndrome::local_queue_pair, Syndrome::remote_invalid);
            } else if (!deliver(record, payload)) {
                break;
            }
        }
        if (moved_ && shared_->connection.incoming.wakes_sender()) [[unlikely]] {
            moved_ = !shared_->connection.wake_sender(false);
            owes_wake_.store(moved_, std::memory_order_relaxed);
        }
    }
    if (drained_ && !established_) [[unlikely]]
        report_state();
    // The sender may sleep until its requests are complete, or until there is room for more.
    if (std::exchange(drained_, false)) ring_sender();
    if (shared_->is(QueuePairState::error)) flush();
    if (written_ != nullptr) announce();
}

void ReceiveEngine::flush() noexcept {
    ring_sender();
    if (!shares_receives_) return flush_own();
    give_back();
    if (!holds_entry_.load(std::memory_order_relaxed) && !last_reported_.exchange(true))
        shared_->failure.report(QueuePairEvent::last_receive);
}

// A receive's, or what an atomic operation names.
void ReceiveEngine::recover(const void* address) noexcept {
    access_.recover();
    shared_->failure.text.set("memory at {} is registered and not there (any more)", address);
    if (in_message_ || shared_->traits.datagrams()) {
        fail(Syndrome::local_protection, Syndrome::remote_operation);
    } else {
        fail(Syndrome::flushed, Syndrome::remote_access);
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
        if (in_message_ == ((record.flags & kFirstRecord) != 0)) {
            shared_->failure.text.set("the peer's records do not form whole messages");
            fail(Syndrome::local_queue_pair, Syndrome::remote_invalid);
            return false;
        }
        if ((record.flags & kQueueRecord) != 0) return name_queue(record);
        if (shared_->traits.xrc_domain != nullptr && !in_message_ && !choose_queue()) return false;
        if ((record.flags & kAtomicRecord) != 0) return execute_atomic(record, payload);
        if ((record.flags & (kPutRecord | kGetRecord)) != 0) return copy_for_peer(record, payload);
        if (!in_message_ && !begin()) return !shared_->traits.reliable() && drop(record);
        if ((record.flags & kWriteRecord) == 0 && !place(record, payload))
            return !shared_->traits.reliable() && drop(record);
    }
    drained_ = true;
    if ((record.flags & kLastRecord) != 0) {
        if ((record.flags & kHasInvalidate) != 0 && !invalidate(record)) return false;
        if (!complete(record)) return false;
        count_message((record.flags & kWriteRecord) != 0 ? record.total : received_);
    }
    shared_->connection.incoming.release(record);
    moved_ = true;
    return true;
}

// The message of an unreliable connection goes no further; its receive stays for the next one.
bool ReceiveEngine::drop(const RecordHeader& record) noexcept {
    if (shared_->is(QueuePairState::error)) return false;
    in_message_ = false;
    dropping_ = (record.flags & kLastRecord) == 0;
    shared_->connection.incoming.release(record);
    return true;
}

// Takes the next posted receive.
bool ReceiveEngine::begin() noexcept {
    if (holds_entry_.load(std::memory_order_relaxed)) {
        in_message_ = true;
        received_ = 0;
        in_entry_ = nullptr;
        return true;
    }
    if (shared_->connection.incoming.given_up()) return false;
    const Taken taken = list_ != nullptr ? take_shared() : take_own();
    if (taken == Taken::broken) {
        fail(Syndrome::local_queue_pair, Syndrome::remote_operation);
        return false;
    }
    if (taken == Taken::nothing) {
        // Receiver not ready: the message waits in the ring, without limit.
        if (!not_ready()) {
            shared_->connection.incoming.count_not_ready();
            // Its sender may sleep, and does not wait for ever.
            ring_sender();
        }
        counted_not_ready_.store(true, std::memory_order_relaxed);
        return false;
    }
    in_message_ = true;
    counted_not_ready_.store(false, std::memory_order_relaxed);
    received_ = 0;
    in_entry_ = nullptr;
    return true;
}

// The memory of the current receive. Looked up anew for every record: its region may go meanwhile.
Syndrome ReceiveEngine::receive_list(PieceList& list) noexcept {
    const std::span<const std::byte> entry = entry_segments();
    const std::size_t segments = entry.size() / sizeof(mlx5::DataSegment);
    for (std::size_t i = 0; i < std::min<std::size_t>(segments, mlx5::kMaxWqeUnits); ++i) {
        mlx5::DataSegment segment;
        std::memcpy(&segment, entry.data() + i * sizeof segment, sizeof segment);
        const std::uint32_t count = segment.byte_count.native() & ~mlx5::kInlineFlag;
        if (count == 0 && segment.key.native() == mlx5::kInvalidKey) break;
        const Syndrome syndrome =
            local_.add(segment.key.native(), segment.address.native(),
                       count == 0 ? mlx5::kMaxElementBytes : count, Access::local_write, list);
        if (syndrome != kNoSyndrome) return syndrome;
    }
    return kNoSyndrome;
}

bool ReceiveEngine::place(const RecordHeader& record, const std::byte* payload) noexcept {
    if (record.bytes == 0) return true;
    const MemoryTouch inside(access_);
    PieceList list;
    if (const Syndrome syndrome = receive_list(list); syndrome != kNoSyndrome) {
        fail(syndrome, Syndrome::remote_operation);
        return false;
    }
    if (received_ + record.bytes > list.total) {
        shared_->failure.text.set("a message of {} bytes arrived for a receive of {} bytes",
                                  record.total, list.total);
        if (!shared_->traits.reliable()) return false;
        fail(Syndrome::local_length, Syndrome::remote_invalid);
        return false;
    }
    if (shared_->traits.receive_in_entry == 0 || !keep_for_entry(record, payload, list))
        scatter(list, received_, payload, record.bytes);
    received_ += record.bytes;
    return true;
}

// False: the message is too long for it, or the driver could not bring it to its place.
bool ReceiveEngine::keep_for_entry(const RecordHeader& record, const std::byte* payload,
                                   const PieceList& list) noexcept {
    constexpr std::uint32_t kWhole = kFirstRecord | kLastRecord;
    if ((record.flags & kWhole) != kWhole || record.bytes > shared_->traits.receive_in_entry)
        return false;
    // Whose list this is: there are as many elements.
    const std::span<const std::byte> entry = entry_segments();
    const auto element = [&](std::size_t i) {
        mlx5::DataSegment segment;
        std::memcpy(&segment, entry.data() + i * sizeof segment, sizeof segment);
        return segment;
    };
    if (!lies_where_named(list, element)) return false;
    touch(list, record.bytes);
    in_entry_ = payload;
    return true;
}

// The message is acknowledged before its completion can be seen: else a program that answers it at
// once, while this thread is preempted between the two, has its answer at the sender before the
// acknowledgement.
bool ReceiveEngine::push(mlx5::Cqe& cqe) noexcept {
    written_ = queue_;
    const auto acknowledge = [this]() noexcept {
        if (!shared_->traits.datagrams()) shared_->connection.incoming.acknowledge();
    };
    if (in_entry_ == nullptr) return completions_->push(cqe, acknowledge);
    if (shared_->traits.receive_in_entry == kDataInEntry) {
        cqe.op_own |= mlx5::kInlineScatter32;
        std::memcpy(cqe.scatter.data(), in_entry_, received_);
        return completions_->push(cqe, acknowledge);
    }
    cqe.op_own |= mlx5::kInlineScatter64;
    CqeWithData entry;
    static_cast<mlx5::Cqe&>(entry) = cqe;
    entry.data = in_entry_;
    entry.data_bytes = received_;
    return completions_->push(entry, acknowledge);
}

// Before the message is completed: its receiver may rely on it that the key is gone.
bool ReceiveEngine::invalidate(const RecordHeader& record) noexcept {
    const std::uint32_t key = mlx5::be32::from_raw(record.immediate).native();
    KeyUpdate update = revocation_.begun()
                           ? revocation_.look(shared_->failure.text)
                           : keys_->invalidate(key, shared_->traits.number, shared_->failure.text);
    if (update == KeyUpdate::revoked)
        update = revocation_.begin(*keys_, shared_->traits.number, shared_->failure.text);
    placed_ = update == KeyUpdate::busy;
    if (update == KeyUpdate::refused) fail(Syndrome::local_access, Syndrome::remote_access);
    return update == KeyUpdate::done;
}

bool ReceiveEngine::complete(const RecordHeader& record, mlx5::Cqe cqe) noexcept {
    const bool invalidated = (record.flags & kHasInvalidate) != 0;
    const bool written = (record.flags & kWriteRecord) != 0;
    const bool immediate = (record.flags & kHasImmediate) != 0;
    const auto opcode = written       ? mlx5::CqeOpcode::write_immediate
                        : immediate   ? mlx5::CqeOpcode::send_immediate
                        : invalidated ? mlx5::CqeOpcode::send_invalidate
                                      : mlx5::CqeOpcode::send;
    cqe.shared_receive_index = mlx5::be32(receive_index());
    cqe.immediate = mlx5::be32::from_raw(immediate || invalidated ? record.immediate : 0);
    cqe.byte_count = mlx5::be32(written ? record.total : static_cast<std::uint32_t>(received_));
    cqe.opcode_number = mlx5::be32(shared_->traits.number);
    cqe.wqe_counter = mlx5::be16(entry_);
    cqe.op_own = mlx5::make_op_own(opcode, false);
    if ((record.flags & kSolicitedRecord) != 0) cqe.op_own |= mlx5::kSolicited;
    if (!push(cqe)) {
        shared_->failure.text.set(
            "the receive completion queue is full: it must have room for all posted receives");
        fail(Syndrome::local_queue_pair, Syndrome::remote_operation);
        completions_->mark_overrun();
        shared_->failure.report(QueuePairEvent::fatal);
        return false;
    }
    finish_entry();
    in_message_ = false;
    return true;
}

// The current receive fails, and the message at the sender.
void ReceiveEngine::fail(Syndrome own, Syndrome peers) noexcept {
    first_error_ = own;
    log::warn("queue pair {}: {}", shared_->traits.number, shared_->failure.text.view());
    shared_->connection.incoming.refuse(static_cast<std::uint8_t>(peers));
    shared_->enter_error();
}

}  // namespace verbatim::softnic
