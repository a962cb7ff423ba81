// The responder of a queue pair: fills its receives from the peer's messages, and executes the
// peer's requests on memory here. It is the consumer of the incoming ring. Only a thread of the
// receiving process runs it (the one that polls), so nobody else ever writes this queue pair's
// receives. Threads: the one inside the receive gate, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../keys/pending_revocation.hpp"
#include "datagram_receiver.hpp"
#include "one_sided_requests.hpp"
#include "received_message.hpp"
#include "sender_notice.hpp"
#include "xrc_selection.hpp"

namespace verbatim::softnic {

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
            return shared_->connection.incoming.pending() || shared_->datagrams_wait() ||
                   peer_failed() || owes_wake() ||
                   (shared_->traits.ends_with_peer() && shared_->connection.peer_lost());
        if (!shared_->is(QueuePairState::error)) return false;
        if (entries_.shared())
            return entries_.held() || !last_reported_.load(std::memory_order_relaxed);
        return entries_.posted_any();
    }

    // The peer is asleep, and could not be told of what was received yet. Any thread.
    bool owes_wake() const noexcept { return sender_.owed(); }
    // A message found no receive posted, and waits. Any thread.
    bool not_ready() const noexcept { return counted_not_ready_.load(std::memory_order_relaxed); }
    const ReceiveCounts& counts() const noexcept { return counts_; }

    // Control path, gate closed.
    void reset() noexcept;
    // Before the queue pair forgets its messages: the shared entry that one is arriving in goes
    // back.
    void give_back() noexcept { entries_.give_back(); }
    // Of an XRC target: the shared receive queue goes, and the receive taken from it.
    void forget_queue(const XrcQueue& queue) noexcept { xrc_.forget(entries_, queue); }

  private:
    // Of those whose owners want to know.
    bool peer_failed() const noexcept {
        return shared_->failure.events.call != nullptr && shared_->connection.incoming.fault() != 0;
    }
    void run_connected() noexcept;
    bool admitted() const noexcept;
    void refuse_peers_request() noexcept;
    void report_state() noexcept;
    bool deliver(const RecordHeader& record, const std::byte* payload) noexcept;
    bool continues(const RecordHeader& record) noexcept;
    bool execute(const RecordHeader& record, const std::byte* payload) noexcept;
    bool begin() noexcept;
    bool count_not_ready() noexcept;
    bool finish(const RecordHeader& record) noexcept;
    bool invalidate(const RecordHeader& record) noexcept;
    bool drop(const RecordHeader& record) noexcept;
    void flush() noexcept;

    QueuePairShared* shared_;
    ReceiveEntries entries_;
    ReceivedMessage message_;
    SenderNotice sender_;
    OneSidedRequests one_sided_;
    DatagramReceiver datagrams_;
    XrcSelection xrc_;
    PendingRevocation revocation_;  // by the record at hand
    ReceiveCounts counts_;
    bool in_message_ = false;
    bool dropping_ = false;  // the rest of a message of an unreliable connection
    bool placed_ = false;    // the record at hand, but the key it names could not be changed yet
    std::atomic<bool> counted_not_ready_{false};
    std::atomic<bool> last_reported_{false};  // QueuePairEvent::last_receive
    bool established_ = false;                // QueuePairEvent::established was reported
};

}  // namespace verbatim::softnic
