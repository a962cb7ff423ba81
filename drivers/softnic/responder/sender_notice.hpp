// The notice to the sender of received messages: that room was made in its ring, and that its
// requests are complete. It may sleep until then. Threads: the one inside the receive gate, but for
// owed().
#pragma once

#include <atomic>
#include <utility>

#include "../queue_pair/queue_pair_state.hpp"

namespace verbatim::softnic {

class SenderNotice {
  public:
    explicit SenderNotice(QueuePairShared& shared) noexcept : shared_(&shared) {}

    // The peer is asleep, and could not be told of what was received yet. Any thread.
    bool owed() const noexcept { return owed_.load(std::memory_order_relaxed); }
    // Something was received in this turn.
    void note_received() noexcept { received_ = true; }
    bool received() const noexcept { return received_; }
    // It was released from the ring.
    void note_release() noexcept { released_ = true; }

    // Raises the peer's events, if it sleeps.
    void wake() noexcept {
        if (!released_ || !shared_->connection.incoming.wakes_sender()) [[likely]]
            return;
        released_ = !shared_->connection.wake_sender(false);
        owed_.store(released_, std::memory_order_relaxed);
    }
    void ring() const noexcept {
        const auto& sender = shared_->connection.sender;
        if (sender != nullptr) sender->ring_bell();
    }
    // At the end of a turn.
    void ring_if_received() noexcept {
        if (std::exchange(received_, false)) ring();
    }
    void reset() noexcept {
        released_ = false;
        owed_.store(false, std::memory_order_relaxed);
    }

  private:
    QueuePairShared* shared_;
    bool released_ = false;  // the sender was not told of it
    bool received_ = false;
    std::atomic<bool> owed_{false};
};

}  // namespace verbatim::softnic
