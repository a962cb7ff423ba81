// The connection of a queue pair: the link to the peer's process and a ring in each direction.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "../links/link.hpp"
#include "../ports/tcp/peer_stream.hpp"
#include "../rings/channel.hpp"

namespace verbatim::softnic {

struct QueuePairConnection {
    // Set by connect() before the state turns ready, cleared by reset() with both gates closed;
    // constant between.
    std::shared_ptr<Link> link;
    // The receive gate's: whose bell to ring when messages were received. Known before `link` is.
    std::shared_ptr<Link> sender;
    // Set and cleared with `link`. Null: the peer's device is told, and wakes its threads. Else
    // both directions of the peer use one completion queue, so their sleep words have the same
    // count.
    std::shared_ptr<const WakeFile> waker;
    std::uint32_t peer_number = 0;  // the peer's queue pair
    ChannelSender outgoing;         // the peer's ring
    ChannelReceiver incoming;       // our ring, written by the peer
    std::atomic<bool> has_incoming{false};
    // Ring bytes that may be received: what arrived before this side's acknowledgements were read.
    // A peer acknowledges a request before it answers, and programs rely on it that they see the
    // completion before the answer.
    std::atomic<std::uint64_t> admitted{0};
    std::uint32_t woken_receiver = 0, woken_sender = 0;  // the sleeps that ended last
    std::atomic<std::uint32_t> rung{0};  // the sleep that the waker ended last: of both directions
    // Of the tcp port, instead of link and outgoing; set and cleared as those are, and read by any
    // thread.
    std::atomic<PeerStream*> stream{nullptr};

    // The peer's process or its queue pair is not there any more.
    bool peer_lost() const noexcept {
        if (const PeerStream* const tcp = stream.load(std::memory_order_acquire)) [[unlikely]]
            return tcp->words().gone();
        return link != nullptr &&
               (link->lost() || (outgoing && outgoing.receiver_state() == ReceiverState::closed));
    }
    // Nothing that is sent now is answered. Only where there is a link.
    bool silent() const noexcept {
        return link->lost() || outgoing.receiver_state() != ReceiverState::open;
    }

    // Of the tcp port: no poll comes soon.
    void hand_over() noexcept {
        if (PeerStream* const tcp = stream.load(std::memory_order_acquire)) tcp->hand_over();
    }
    // Of the tcp port: a poll ends in which the responder ran.
    void settle() noexcept {
        if (PeerStream* const tcp = stream.load(std::memory_order_acquire)) tcp->settle();
    }
    // See peer_waking.hpp. After something was handed to the peer's receive queue, by the thread in
    // the send gate; after its messages were acknowledged or room was made for more, by the one in
    // the receive gate (false: try again later); after this queue pair failed or closed.
    // `noteworthy`: also for those who sleep for solicited completions only.
    bool wake_receiver(bool noteworthy) noexcept;
    bool wake_sender(bool noteworthy) noexcept;
    void wake_peer() noexcept;

  private:
    bool ring() const noexcept;
    bool wake_thread(std::uint32_t word) noexcept;
};

}  // namespace verbatim::softnic
