// Waking the peer's sleeping threads.
#include "peer_waking.hpp"

#include "queue_pair_connection.hpp"

namespace verbatim::softnic {

// A thread that was rung for out of this sleep looks at all once more before the next one, and what
// it is woken for was stored before the word was read. Who is woken finds the mark.
bool QueuePairConnection::wake_thread(std::uint32_t word) noexcept {
    outgoing.signal();
    if (waker == nullptr) return link->wake(peer_number);
    if (rung.load(std::memory_order_acquire) == word >> 2) return true;
    if (!waker->wake()) return link->wake(peer_number);
    rung.store(word >> 2, std::memory_order_release);
    return true;
}

bool QueuePairConnection::wake_receiver(bool noteworthy) noexcept {
    outgoing.signal();
    const std::uint32_t word = outgoing.receiver_asleep();
    if (!is_to_wake(word, woken_receiver, noteworthy)) return true;
    if (!wake_thread(word)) return false;
    woken_receiver = word;
    return true;
}

// Without a mark: a sender with requests under way is always looked at.
bool QueuePairConnection::wake_sender(bool noteworthy) noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint32_t word = incoming.sender_asleep();
    if (!is_to_wake(word, woken_sender, noteworthy)) return true;
    // Before this side may send, it receives already: the way to the sender is not known yet.
    if (link == nullptr) return false;
    if (!wake_thread(word)) return false;
    woken_sender = word;
    return true;
}

void QueuePairConnection::wake_peer() noexcept {
    if (PeerStream* const tcp = stream.load(std::memory_order_acquire)) tcp->flush();
    if (link == nullptr || !outgoing) return;
    outgoing.signal();
    link->ring_bell();
    if (!outgoing.wakes_receiver() && !incoming.wakes_sender()) return;
    if (waker == nullptr || !waker->wake()) static_cast<void>(link->wake(peer_number));
}

}  // namespace verbatim::softnic
