// What the two engines of a queue pair share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <verbatim/driver/device.hpp>
#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "../../softqueue/failure_text.hpp"
#include "../links/link.hpp"
#include "../rings/channel.hpp"
#include "datagram_flows.hpp"
#include "queue_pair_access.hpp"

namespace verbatim::softnic {

class XrcDomain;

// What a queue pair reports beside completions. Fatal: no completion can be written any more.
// Request and access error: the peer asked for what it may not. Last receive: of those that it had
// taken from a shared queue, after it failed. Established: a message came before the queue pair was
// made ready to send. Drained: nothing is outstanding any more since sending was paused.
enum class QueuePairEvent : std::uint8_t {
    fatal,
    request_error,
    access_error,
    last_receive,
    established,
    drained
};
// Called by the thread that found it.
struct EventSink {
    void (*call)(void* context, QueuePairEvent event) noexcept = nullptr;
    void* context = nullptr;
};

struct QueuePairShared {
    std::uint32_t number = 0;
    std::uint32_t domain = 0;  // protection domain
    mlx5::Transport transport = mlx5::Transport::reliable_connection;
    std::atomic<QueuePairState> state{QueuePairState::reset};
    FailureText failure;
    // XRC: an initiator's requests name shared receive queues; a target receives for its domain.
    bool names_queues = false;
    const XrcDomain* xrc_domain = nullptr;
    // What completions carry as Cqe::shared_receive_index.
    std::uint32_t send_index = 0, receive_index = 0;
    // Received bytes, and bytes read, that go into the completion's entry (entry_data.hpp); 0:
    // none.
    std::uint32_t receive_in_entry = 0, result_in_entry = 0;
    // How often a request is tried again that finds no receive at the peer; all bits set: for ever.
    static constexpr std::uint8_t kForEver = 7;
    std::atomic<std::uint8_t> not_ready_retries{kForEver};
    // After which time a request is sent again that nobody acknowledges (0: never), and how often.
    // Only a fault policy loses requests.
    static constexpr std::chrono::nanoseconds kRetryAfter = std::chrono::milliseconds(1);
    std::atomic<std::chrono::nanoseconds> retry_after{kRetryAfter};
    std::atomic<std::uint8_t> retries{7};
    bool ends_with_peer = true;  // a peer that goes is an error, even if nothing is sent to it
    // Of the first request flushed in the error state; none: as the engine finds. Set before that
    // state is entered.
    std::atomic<mlx5::Syndrome> first_syndrome{};
    // Set by connect() before the state turns ready, cleared by reset() with both gates closed;
    // constant between.
    std::shared_ptr<Link> link;
    // The receive gate's: whose bell to ring when messages were received. Known before `link` is.
    std::shared_ptr<Link> sender;
    std::uint32_t peer_number = 0;          // the peer's queue pair
    ChannelSender outgoing;                 // the peer's ring
    ChannelReceiver incoming;               // our ring, written by the peer
    std::optional<QueuePairAccess> access;  // from the queue pair's making on
    // Of datagram queue pairs instead of these four.
    Flows flows;
    std::uint32_t max_datagram = kMaxDatagramBytes;  // the port's MTU
    FlowRequest flow_request;
    DatagramSources sources;
    std::atomic<std::uint32_t> queue_key{0};
    GlobalRoute route{};  // what its receives say of the way back

    // The peer's process or its queue pair is not there any more.
    bool peer_lost() const noexcept {
        return link != nullptr &&
               (link->lost() || (outgoing && outgoing.receiver_state() == ReceiverState::closed));
    }
    // Nothing that is sent now is answered.
    bool peer_silent() const noexcept {
        return !datagrams() && (link->lost() || outgoing.receiver_state() != ReceiverState::open);
    }
    // From ready to error; both engines flush from now on, and the peer's requests are not answered
    // any more.
    void enter_error() noexcept {
        state.store(QueuePairState::error, std::memory_order_release);
        incoming.set_state(ReceiverState::error);
        sources.set_state(ReceiverState::error);
        wake_peer();
    }
    bool reliable() const noexcept { return transport == mlx5::Transport::reliable_connection; }
    bool datagrams() const noexcept { return transport == mlx5::Transport::unreliable_datagram; }
    bool receives() const noexcept {
        const QueuePairState now = state.load(std::memory_order_acquire);
        return now == QueuePairState::ready || now == QueuePairState::ready_to_receive;
    }

    // Ring bytes that may be received: what arrived before this side's acknowledgements were read.
    // A peer acknowledges a request before it answers, and programs rely on it that they see the
    // completion before the answer.
    std::atomic<std::uint64_t> admitted{0};
    bool orders_answers = false;  // else everything is admitted

    // Requests wait until it is taken back; `report_drained`: once what was begun is complete.
    std::atomic<bool> paused{false}, report_drained{false};
    EventSink events;
    void report(QueuePairEvent event) const noexcept {
        if (events.call != nullptr) events.call(events.context, event);
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
