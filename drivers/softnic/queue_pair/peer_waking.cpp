// Waking the peer's sleeping threads.
#include "peer_waking.hpp"

#include "queue_pair_connection.hpp"

namespace verbatim::softnic {

bool QueuePairConnection::ring() const noexcept {
    return (waker != nullptr && waker->wake()) || link->wake(peer_number);
}

// A thread that was rung for out of this sleep looks at all once more before the next one, and what
// it is woken for was stored before the word was read.
bool QueuePairConnection::wake_thread(std::uint32_t word) noexcept {
    const std::uint32_t sleep = word >> 2;
    if (waker != nullptr && rung.load(std::memory_order_acquire) == sleep) return true;
    if (!ring()) return false;
    rung.store(sleep, std::memory_order_release);
    return true;
}

bool QueuePairConnection::wake_receiver(bool noteworthy) noexcept {
    outgoing.signal();  // who is woken finds the mark
    const std::uint32_t word = outgoing.receiver_asleep();
    if (!is_to_wake(word, woken_receiver, noteworthy)) return true;
    if (!wake_thread(word)) return false;
    woken_receiver = word;
    return true;
}

// The mark is no need: a sender with requests under way is always looked at.
bool QueuePairConnection::wake_sender(bool noteworthy) noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint32_t word = incoming.sender_asleep();
    if (!is_to_wake(word, woken_sender, noteworthy)) return true;
    // Before this side may send, it receives already: the way to the sender is not known yet.
    if (link == nullptr) return false;
    outgoing.signal();
    if (!wake_thread(word)) return false;
    woken_sender = word;
    return true;
}

void QueuePairConnection::wake_peer() noexcept {
    if (PeerStream* const tcp = stream.load(std::memory_order_acquire)) tcp->flush();
    if (link == nullptr || !outgoing) return;
    outgoing.signal();
    link->ring_bell();
    if (outgoing.wakes_receiver() || incoming.wakes_sender()) static_cast<void>(ring());
}

}  // namespace verbatim::softnic
