// What the two engines of a queue pair share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <verbatim/driver/device.hpp>

#include "channel.hpp"
#include "failure_text.hpp"
#include "link.hpp"

namespace verbatim::softnic {

struct QueuePairShared {
    std::uint32_t number = 0;
    std::atomic<QueuePairState> state{QueuePairState::reset};
    FailureText failure;
    // Set by connect() before the state turns ready, cleared by reset() with both gates closed;
    // constant between.
    std::shared_ptr<Link> link;
    std::uint32_t peer_number = 0;  // the peer's queue pair
    ChannelSender outgoing;         // the peer's ring
    ChannelReceiver incoming;       // our ring, written by the peer

    // The peer's process or its queue pair is not there any more.
    bool peer_lost() const noexcept {
        return link != nullptr &&
               (link->lost() || (outgoing && outgoing.receiver_state() == ReceiverState::closed));
    }
    // Nothing that is sent now is answered.
    bool peer_silent() const noexcept {
        return link->lost() || outgoing.receiver_state() != ReceiverState::open;
    }
    // From ready to error; both engines flush from now on, and the peer's requests are not answered
    // any more.
    void enter_error() noexcept {
        state.store(QueuePairState::error, std::memory_order_release);
        incoming.set_state(ReceiverState::error);
        wake_peer();
    }

    // See peer_waking.hpp. After something was handed to the peer's receive queue, by the thread in
    // the send gate; after its messages were acknowledged or room was made for more, by the one in
    // the receive gate (false: try again later); after this queue pair failed or closed.
    // `noteworthy`: also for those who sleep for solicited completions only.
    bool wake_receiver(bool noteworthy) noexcept;
    bool wake_sender(bool noteworthy) noexcept;
    void wake_peer() noexcept;
    std::uint32_t woken_receiver = 0, woken_sender = 0;  // the sleeps that ended last
    bool is(QueuePairState wanted) const noexcept {
        return state.load(std::memory_order_acquire) == wanted;
    }
};

}  // namespace verbatim::softnic
