// The ring by which two-sided work crosses from one queue pair to its peer: sends, and the
// immediates of RDMA writes. One producer (the sending queue pair), one consumer (the receiving
// queue pair, when its process polls). It lies in a slot of a memory file of the receiver
// (channel_slab.hpp). Messages are cut into records, so any length flows through. Whatever the peer
// writes is read once, checked, and only then used.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/endian.hpp>

#include "../host/shared_memory.hpp"
#include "../host/wake_file.hpp"
#include "channel_slab.hpp"

namespace verbatim::softnic {

enum class ReceiverState : std::uint32_t { open = 0, error = 1, closed = 2 };

// Atomic operations whose results a sender has not taken yet.
inline constexpr std::size_t kAtomicResults = 16;

// A shared receive queue that messages to an XRC target may be for: [63:32] protection domain,
// [31:0] number, or 0 for none. In a table, at the number modulo its length. Owner: receiver;
// control path.
using XrcQueueName = std::atomic<std::uint64_t>;
inline constexpr std::size_t kXrcQueues = 1024;

// Start of the slot; the ring follows. Each cache line has one owner.
struct ChannelHeader {
    // Owner: receiver, written before the file is handed out.
    struct alignas(64) {
        std::uint64_t magic;
        std::uint64_t ring_bytes;       // power of two
        std::uint64_t receiver_sleeps;  // 1: it may, and wants to be woken (peer_waking.hpp)
        std::uint32_t domain;           // protection domain of the receiving queue pair
        std::uint32_t names_queues;     // 1: behind the ring is a table of XrcQueueNames
        std::uint32_t slot;             // of the work board at the file's start
    } fixed;
    // Owner: receiver; control path.
    struct alignas(64) {
        std::atomic<std::uint32_t> allowed;        // Access bits of one-sided requests
        std::atomic<std::uint64_t> lent;           // times that a sender was told of the slot
        std::atomic<std::uint64_t> not_ready_for;  // ns that a sender is to wait for a receive
    } terms;
    // Owner: receiver; any of its threads, only ever upwards.
    alignas(64) std::atomic<std::uint32_t> receiver_state;
    std::atomic<std::uint32_t> receiver_asleep;  // a sleep word; by the polling thread
    // 1: the sender is to mark what it has written. Owner: receiver; the thread that changes its
    // attention (attention.hpp).
    std::atomic<std::uint32_t> listens;
    // Owner: receiver; the thread inside its receive gate.
    struct alignas(64) {
        std::atomic<std::uint64_t> consumed;      // ring bytes given back
        std::atomic<std::uint64_t> acknowledged;  // messages completed
        std::atomic<std::uint64_t> refused;       // 0, or the syndrome of the message after these
        std::atomic<std::uint64_t> not_ready;     // times a message found no receive posted
        std::atomic<std::uint64_t> waiting;       // the last message that did: its number, from 1
    } drain;
    // Owner: receiver; the thread inside its receive gate. What was there before the nth atomic
    // operation of those that crossed the ring, at n modulo kAtomicResults.
    alignas(64) std::array<std::atomic<std::uint64_t>, kAtomicResults> results;
    // Owner: sender; the thread inside its send gate.
    struct alignas(64) {
        std::atomic<std::uint64_t> bytes;          // ring bytes written
        std::atomic<std::uint32_t> given_up;       // 1: what is not begun yet is not to be received
        std::atomic<std::uint32_t> sender_sleeps;  // 1: it may; before the first record
        std::atomic<std::uint32_t> sender_asleep;  // a sleep word; by the polling thread
        std::atomic<std::uint32_t> fault;  // 0, or the syndrome of a one-sided request after these
        std::atomic<std::uint32_t> attached;  // 1: it tells of its end from now on
        std::atomic<std::uint64_t> released;  // `lent` when it began; its last store
    } produced;
    // Owner: sender; the thread inside its send gate. Odd while that touches memory of the
    // receiver's process (access_sequence.hpp). No receiver polls this line.
    alignas(64) std::atomic<std::uint64_t> access;
};
inline constexpr std::size_t kChannelHeaderBytes = 512;
static_assert(sizeof(ChannelHeader) <= kChannelHeaderBytes);
inline constexpr std::uint64_t kChannelMagic = 0x766263686e303036;  // "vbchn006"

// Precedes each record's payload; records start at multiples of 16 and do not wrap. A record with
// kQueueRecord is no message: those behind it are for the shared receive queue in `total`.
struct RecordHeader {
    std::uint32_t bytes = 0;  // payload of this record
    std::uint32_t flags = 0;  // RecordFlags
    std::uint32_t total =
        0;  // in the last record: bytes of the message, or written by the RDMA write
    std::uint32_t immediate = 0;  // as in the work request; or the key to invalidate
};
static_assert(sizeof(RecordHeader) == 16);
inline constexpr std::uint32_t kFirstRecord = 1, kLastRecord = 2, kHasImmediate = 4,
                               kSolicitedRecord = 8, kWriteRecord = 16, kHasInvalidate = 32,
                               kFillerRecord = 64, kAtomicRecord = 128, kPutRecord = 256,
                               kGetRecord = 512, kQueueRecord = 1024, kKnownRecordFlags = 2047;
inline constexpr std::size_t kMaxRecordBytes = 4096;
// Of a question: a RemoteCopy.
inline constexpr std::size_t kQuestionBytes = 16;
// Pieces of the receiver's memory that a sender has asked for and not taken yet, and the most of
// them that one may have.
inline constexpr std::size_t kAnswers = 8, kAnswerBytes = kMaxRecordBytes - kQuestionBytes;

constexpr std::size_t record_span(std::size_t payload_bytes) noexcept {
    return (sizeof(RecordHeader) + payload_bytes + 15) & ~std::size_t{15};
}

// What a receiver makes a channel of.
struct ChannelTerms {
    std::size_t ring_bytes = 0;  // power of two
    bool sleeps = false;         // its thread may
    std::uint32_t domain = 0;    // protection domain of the queue pair
    bool names_queues = false;   // it is an XRC target
    Access allowed = Access::remote_write | Access::remote_read | Access::remote_atomic;
    std::chrono::nanoseconds not_ready_for{0};  // 0: a sender waits for ever

    // Of a slot.
    std::size_t bytes() const noexcept;
};

// Where a sender finds a channel: in a mapping of the receiver's file. And by which of its doors it
// wakes the receiver's thread; 0: there is none.
struct ChannelPlace {
    std::shared_ptr<SharedMemory> memory;
    std::uint64_t offset = 0;
    std::uint32_t door = 0;
    std::shared_ptr<const WakeFile> waker;
};

// A sender's last store to a channel; then its mapping may go.
struct LetGoOfChannel {
    std::shared_ptr<SharedMemory> memory;
    std::uint64_t lent = 0, generation = fork_generation();
    void operator()(ChannelHeader* header) const noexcept;
};

// The sender's end. Threads: the one inside the send gate, but for signal().
class ChannelSender {
  public:
    ChannelSender() = default;
    // Throws Error(protocol_error) if there is no channel.
    explicit ChannelSender(ChannelPlace place);

    explicit operator bool() const noexcept { return header_ != nullptr; }
    ReceiverState receiver_state() const noexcept {
        return static_cast<ReceiverState>(header_->receiver_state.load(std::memory_order_acquire));
    }
    bool receiver_is_open() const noexcept { return receiver_state() == ReceiverState::open; }
    std::atomic<std::uint64_t>& access_word() const noexcept { return header_->access; }
    std::uint64_t acknowledged() const noexcept {
        return header_->drain.acknowledged.load(std::memory_order_acquire);
    }
    std::uint64_t refused() const noexcept {
        return header_->drain.refused.load(std::memory_order_acquire);
    }
    std::uint64_t not_ready() const noexcept {
        return header_->drain.not_ready.load(std::memory_order_relaxed);
    }

    bool allows(Access wanted) const noexcept {
        return verbatim::allows(
            static_cast<Access>(header_->terms.allowed.load(std::memory_order_relaxed)), wanted);
    }
    // Whether this message found no receive posted, and how long its sender is to wait for one.
    bool waits_for_receive(std::uint64_t message) const noexcept {
        return header_->drain.waiting.load(std::memory_order_acquire) == message;
    }
    bool a_message_waits() const noexcept { return waits_for_receive(acknowledged() + 1); }
    std::chrono::nanoseconds not_ready_for() const noexcept {
        return std::chrono::nanoseconds(
            header_->terms.not_ready_for.load(std::memory_order_relaxed));
    }
    std::uint64_t atomic_result(std::uint64_t nth) const noexcept {
        return header_->results[nth % kAtomicResults].load(std::memory_order_acquire);
    }
    // Of an XRC target's shared receive queue. Nothing: it has none with this number.
    std::optional<std::uint32_t> protection_domain(std::uint32_t queue) const noexcept;
    // The oldest piece that was asked for by commit_question() and not taken; null: none. Valid
    // until take_answer(), once the record is acknowledged.
    std::uint64_t untaken_answers() const noexcept { return asked_ - taken_; }
    const std::byte* answer() const noexcept {
        return ring_ + (question_at_[taken_ % kAnswers] & (ring_bytes_ - 1)) +
               sizeof(RecordHeader) + kQuestionBytes;
    }
    void take_answer() noexcept { ++taken_; }
    // What one piece may have at most.
    std::size_t answer_bytes() const noexcept {
        return std::min<std::size_t>(kAnswerBytes, ring_bytes_ / 4);
    }
    // Whatever the receiver has not begun is not to be received any more.
    void give_up() noexcept;
    // A one-sided request, which only this side checks, is one that the receiver must refuse.
    void report_fault(std::uint8_t syndrome) noexcept;

    // Whether the receiver's thread sleeps at times, and its last sleep.
    bool wakes_receiver() const noexcept { return wakes_receiver_; }
    std::uint32_t domain() const noexcept { return domain_; }
    std::uint32_t receiver_asleep() const noexcept {
        return header_->receiver_asleep.load(std::memory_order_acquire);
    }
    // The same of this side's thread.
    void set_sleeps() noexcept;
    void set_asleep(std::uint32_t word) noexcept;

    // From now on this side marks when its queue pair ends.
    void set_attached() noexcept;

    // Where the next record's payload goes, and how much of it fits: less than `wanted` only where
    // the ring has no more room. Null: it is full.
    std::byte* reserve(std::size_t& capacity, std::size_t wanted = kMaxRecordBytes) noexcept;
    // The same for a payload that must lie in one record; fills what is too short before the ring's
    // end.
    std::byte* reserve_whole(std::size_t bytes) noexcept;
    // The receiver has taken everything that was handed over.
    bool all_taken() noexcept {
        return consumed_ == produced_ || (refresh(), consumed_ == produced_);
    }
    // Hands over the reserved record with its payload.
    void commit(const RecordHeader& record) noexcept;
    // The same of one whose payload is a question of kQuestionBytes and room for the answer. The
    // receiver writes it there before it gives the record back; the room stays taken until
    // take_answer().
    void commit_question(const RecordHeader& record) noexcept;
    // True once after records were committed.
    bool take_news() noexcept { return std::exchange(news_, false); }
    // Ring bytes that the receiver has given back, as of the last reservation.
    std::uint64_t consumed() const noexcept { return consumed_; }
    // Marks the channel where the receiver wants that. After what is new was stored, and before the
    // receiver's sleep word or bell is looked at: contains the full fence between. Any thread.
    void signal() noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (header_->listens.load(std::memory_order_relaxed) != 0) board_->mark(slot_);
    }
    // The receiver's words contradict themselves; nothing can be sent any more.
    bool broken() const noexcept { return broken_; }

  private:
    void refresh() noexcept;
    // What the receiver has given back, and no question waits in.
    std::uint64_t given_back() const noexcept {
        return asked_ == taken_ ? consumed_ : std::min(consumed_, question_at_[taken_ % kAnswers]);
    }

    std::unique_ptr<ChannelHeader, LetGoOfChannel> header_;
    WorkBoard* board_ = nullptr;
    std::uint32_t slot_ = 0;
    std::byte* ring_ = nullptr;
    std::uint64_t ring_bytes_ = 0;
    std::uint64_t asked_ = 0, taken_ = 0;
    std::array<std::uint64_t, kAnswers> question_at_{};  // in the ring, by their number
    std::uint64_t produced_ = 0;  // our own copies: the peer could write the shared words
    std::uint64_t consumed_ = 0;
    bool broken_ = false;
    bool news_ = false;
    bool wakes_receiver_ = false;
    std::uint32_t domain_ = 0;
    const XrcQueueName* queue_names_ = nullptr;  // null: the peer is no XRC target
};

// The receiver's end; without a slot, one that nothing arrives at. Threads: the one inside the
// receive gate, but for pending(), set_state(), set_asleep() and set_listens().
class ChannelReceiver {
  public:
    enum class Peek : std::uint8_t { nothing, record, broken };

    ChannelReceiver() = default;
    // A new channel in a slot of terms.bytes().
    ChannelReceiver(ChannelSlot slot, const ChannelTerms& terms) noexcept;
    ChannelReceiver(ChannelReceiver&& other) noexcept { *this = std::move(other); }
    ChannelReceiver& operator=(ChannelReceiver&& other) noexcept;

    explicit operator bool() const noexcept { return static_cast<bool>(slot_); }
    const ChannelSlot& slot() const noexcept { return slot_; }
    // Where a sender finds it, which is told of it now; its process, null: this one.
    ChannelPlace lend(std::shared_ptr<const PeerProcess> sender = nullptr) noexcept;

    bool pending() const noexcept {
        return header_->produced.bytes.load(std::memory_order_acquire) !=
               __atomic_load_n(&consumed_, __ATOMIC_RELAXED);
    }
    // Ring bytes that the peer has written, and those read so far.
    std::uint64_t arrived() const noexcept {
        return header_->produced.bytes.load(std::memory_order_acquire);
    }
    std::uint64_t consumed() const noexcept {
        return __atomic_load_n(&consumed_, __ATOMIC_RELAXED);
    }
    const std::atomic<std::uint64_t>& access_word() const noexcept { return header_->access; }
    void set_state(ReceiverState state) noexcept;
    // Control path.
    void set_allowed(Access allowed) noexcept;
    void set_not_ready_for(std::chrono::nanoseconds time) noexcept;
    bool given_up() const noexcept {
        return header_->produced.given_up.load(std::memory_order_acquire) != 0;
    }
    // See ChannelSender::set_attached().
    bool attached() const noexcept {
        return header_->produced.attached.load(std::memory_order_acquire) != 0;
    }
    // See ChannelSender::report_fault().
    std::uint32_t fault() const noexcept {
        return header_->produced.fault.load(std::memory_order_acquire);
    }
    bool wakes_sender() const noexcept {
        return header_->produced.sender_sleeps.load(std::memory_order_relaxed) != 0;
    }
    std::uint32_t sender_asleep() const noexcept {
        return header_->produced.sender_asleep.load(std::memory_order_acquire);
    }
    void set_asleep(std::uint32_t word) noexcept;
    // Whether the sender is to mark what it writes. The caller orders it.
    void set_listens(bool listens) noexcept;
    // Control path, of XRC targets: `domain` is the queue's protection domain.
    void name_queue(std::uint32_t queue, std::uint32_t domain) noexcept;
    void forget_queue(std::uint32_t queue) noexcept;

    // The next record; its header is a copy.
    Peek peek(RecordHeader& record, const std::byte*& payload) const noexcept;
    void release(const RecordHeader& record) noexcept;
    void acknowledge() noexcept;
    void refuse(std::uint8_t syndrome) noexcept;
    void set_atomic_result(std::uint64_t nth, std::uint64_t before) noexcept;
    // Into the record at hand, whose payload has room for it behind the question.
    void set_answer(const std::byte* payload, const std::byte* from, std::size_t bytes) noexcept;
    void count_not_ready() noexcept;

  private:
    XrcQueueName& queue_name(std::uint32_t queue) const noexcept;
    // What those without a slot read; never written.
    static ChannelHeader nothing_;

    ChannelSlot slot_;
    ChannelHeader* header_ = &nothing_;
    std::byte* ring_ = nullptr;
    std::uint64_t ring_bytes_ = 0;
    std::uint64_t consumed_ = 0;  // stored inside the receive gate; the peer cannot change it
    std::uint64_t acknowledged_ = 0;
    std::uint64_t not_ready_ = 0;
};

}  // namespace verbatim::softnic
