// Fills a receive queue from the peer's messages: the consumer of the incoming ring. Only a thread
// of the receiving process runs it (the one that polls), so nobody else ever writes this queue
// pair's receives. Of a shared queue it holds one entry at a time, while a message arrives; the
// others are everybody's. Threads: the one inside the receive gate, but for waiting().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "../../softqueue/completion_ring.hpp"
#include "../../softqueue/shared_receive_list.hpp"
#include "../keys/access_sequence.hpp"
#include "../keys/pending_revocation.hpp"
#include "../ports/memory_access.hpp"
#include "../queue_pair/queue_pair_state.hpp"

namespace verbatim::softnic {

struct RemoteAtomic;
struct RemoteCopy;
struct XrcQueue;

class ReceiveEngine {
  public:
    // Receives come from the queue pair's own queue, or from `list` where it is not null.
    ReceiveEngine(const mlx5::QueuePairView& view, SharedReceiveList* list,
                  CompletionRing& completions, KeyTable& keys, QueuePairShared& shared) noexcept;

    // Delivers what has arrived, a bounded number of records.
    void run() noexcept;

    // Instead of the rest of a run(), which touched memory that is not there.
    void recover(const void* address) noexcept;

    // May be called outside the gate: true if run() could find something to do.
    bool waiting() const noexcept {
        if (shared_->receives())
            return shared_->connection.incoming.pending() || shared_->sources.pending() ||
                   peer_failed() || owes_wake() ||
                   (shared_->traits.ends_with_peer() && shared_->connection.peer_lost());
        if (!shared_->is(QueuePairState::error)) return false;
        if (shares_receives_)
            return holds_entry_.load(std::memory_order_relaxed) ||
                   !last_reported_.load(std::memory_order_relaxed);
        return posted() != head_.load(std::memory_order_relaxed);
    }

    // The peer is asleep, and could not be told of what was received yet. Any thread.
    bool owes_wake() const noexcept { return owes_wake_.load(std::memory_order_relaxed); }
    // A message found no receive posted, and waits. Any thread.
    bool not_ready() const noexcept { return counted_not_ready_.load(std::memory_order_relaxed); }

    // Messages received since the queue pair was made. Any thread.
    std::uint64_t messages() const noexcept { return messages_.load(std::memory_order_relaxed); }
    // Their payload. Any thread.
    std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

    // Control path, gate closed.
    void reset() noexcept;
    // Before the queue pair forgets its messages: flushes the shared entry that one is arriving in.
    // Others share that queue, so it must not be lost there.
    void give_back() noexcept;
    // Of an XRC target: the shared receive queue goes, and the receive taken from it.
    void forget_queue(const XrcQueue& queue) noexcept;

  private:
    using Taken = SharedReceiveList::Taken;
    std::uint16_t posted() const noexcept {
        return static_cast<std::uint16_t>(
            read_record(view_.doorbell_record + mlx5::kRecordReceive));
    }
    // Of those whose owners want to know.
    bool peer_failed() const noexcept {
        return shared_->failure.events.call != nullptr && shared_->connection.incoming.fault() != 0;
    }
    void ring_sender() const noexcept {
        if (shared_->connection.sender != nullptr) shared_->connection.sender->ring_bell();
    }
    void refuse_peers_request() noexcept;
    void report_state() noexcept;
    bool deliver(const RecordHeader& record, const std::byte* payload) noexcept;
    bool begin() noexcept;
    bool name_queue(const RecordHeader& record) noexcept;
    bool choose_queue() noexcept;
    void leave_queue() noexcept;
    void announce() noexcept;
    std::uint32_t keys_domain() const noexcept;
    std::uint32_t receive_index() const noexcept {
        return queue_ != nullptr ? queue_index_ : shared_->traits.receive_index;
    }
    Taken take_own() noexcept;
    Taken take_shared() noexcept;
    std::span<const std::byte> entry_segments() const noexcept;
    void finish_entry() noexcept;
    bool place(const RecordHeader& record, const std::byte* payload) noexcept;
    bool keep_for_entry(const RecordHeader& record, const std::byte* payload,
                        const PieceList& list) noexcept;
    bool push(mlx5::Cqe& cqe) noexcept;
    bool invalidate(const RecordHeader& record) noexcept;
    bool complete(const RecordHeader& record, mlx5::Cqe cqe = {}) noexcept;
    void count_message(std::uint64_t bytes) noexcept {
        messages_.store(messages_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        bytes_.store(bytes_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    }
    bool drop(const RecordHeader& record) noexcept;
    bool execute_atomic(const RecordHeader& record, const std::byte* payload) noexcept;
    bool copy_for_peer(const RecordHeader& record, const std::byte* payload) noexcept;
    mlx5::Syndrome reach_word(const RemoteAtomic& operation, std::byte*& word) noexcept;
    std::byte* reach(const RemoteCopy& piece, std::uint64_t bytes, Access wanted) noexcept;
    void run_datagrams() noexcept;
    void deliver_datagram(std::uint32_t sender, const RecordHeader& record,
                          const std::byte* payload) noexcept;
    bool take_unreliably() noexcept;
    mlx5::Syndrome receive_list(PieceList& list) noexcept;
    void fail(mlx5::Syndrome own, mlx5::Syndrome peers) noexcept;
    bool push_error(std::uint16_t entry) noexcept;
    void flush() noexcept;
    void flush_own() noexcept;

    mlx5::QueuePairView view_;
    const bool shares_receives_;
    SharedReceiveList* list_;      // of an XRC target: the message's, null between messages
    CompletionRing* completions_;  // likewise, and the next two
    QueuePairShared* shared_;
    KeyTable* keys_;
    LocalMemory local_;
    AccessSequence access_;         // to memory of this process, by its keys
    PendingRevocation revocation_;  // by the record at hand
    // Of an XRC target: the number that the peer named, the queue if it was looked up, and the one
    // whose completions have to be announced.
    std::uint32_t queue_number_ = 0, queue_index_ = 0;
    const XrcQueue* queue_ = nullptr;
    const XrcQueue* written_ = nullptr;

    std::atomic<std::uint16_t> head_{0};    // of the own queue: next receive to fill
    std::atomic<bool> holds_entry_{false};  // of the shared queue: entry_ was taken
    std::uint16_t entry_ = 0;               // of the current message, as its completion names it
    bool in_message_ = false;
    bool placed_ = false;  // the record at hand, but the key it names could not be changed yet
    std::atomic<bool> counted_not_ready_{false};
    std::atomic<bool> last_reported_{false};  // QueuePairEvent::last_receive
    bool established_ = false;                // QueuePairEvent::established was reported
    std::atomic<bool> owes_wake_{false};
    std::atomic<std::uint64_t> messages_{0}, bytes_{0};  // one writer at a time
    bool moved_ = false;          // something was received that the sender was not told of
    bool drained_ = false;        // something in this run
    bool dropping_ = false;       // the rest of a message of an unreliable connection
    std::uint64_t atomics_ = 0;   // executed for the peer
    std::uint64_t received_ = 0;  // bytes of the current message
    // Of the current message, if they are to go into its completion; still in the ring.
    const std::byte* in_entry_ = nullptr;
    mlx5::Syndrome first_error_ = mlx5::Syndrome::flushed;  // of the receive that is flushed first
};

}  // namespace verbatim::softnic
