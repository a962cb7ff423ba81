// The traits of a queue pair: what it is from its making on. Threads: any; nothing changes.
#pragma once

#include <cstdint>

#include <verbatim/driver/queue_view.hpp>

#include "datagram_flows.hpp"

namespace verbatim::softnic {

class XrcDomain;

struct QueuePairTraits {
    std::uint32_t number = 0;
    std::uint32_t domain = 0;  // protection domain
    mlx5::Transport transport = mlx5::Transport::reliable_connection;
    // XRC: an initiator's requests name shared receive queues; a target receives for its domain.
    bool names_queues = false;
    const XrcDomain* xrc_domain = nullptr;
    // What completions carry as Cqe::shared_receive_index.
    std::uint32_t send_index = 0, receive_index = 0;
    // Received bytes, and bytes read, that go into the completion's entry (entry_data.hpp); 0:
    // none.
    std::uint32_t receive_in_entry = 0, result_in_entry = 0;
    // Its owner takes it through verbs' states, and its memory may go while it is registered.
    bool follows_verbs = false;
    // The peer's answers are admitted (QueuePairConnection::admitted); else everything is.
    bool orders_answers = false;
    // Of datagram queue pairs.
    std::uint32_t max_datagram = kMaxDatagramBytes;  // the port's MTU
    FlowRequest flow_request;
    GlobalRoute route{};  // what its receives say of the way back

    // A peer that goes is an error, even if nothing is sent to it.
    bool ends_with_peer() const noexcept { return !follows_verbs; }
    bool reliable() const noexcept { return transport == mlx5::Transport::reliable_connection; }
    bool datagrams() const noexcept { return transport == mlx5::Transport::unreliable_datagram; }
};

}  // namespace verbatim::softnic
