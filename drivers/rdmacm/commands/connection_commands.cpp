// Commands about connections.
#include "connection_commands.hpp"

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "../command.hpp"
#include "../device_gid.hpp"
#include "../events.hpp"
#include "../manager_state.hpp"
#include "address_commands.hpp"

namespace verbatim::rdmacm {
namespace {

constexpr std::uint32_t kMaxBacklog = 1024;
// How long a request waits for somebody to listen. A real network needs some milliseconds until the
// answer comes that nobody does; programs count on that without knowing (perftest -R says that it
// is about to listen before it does).
constexpr std::chrono::milliseconds kListenerTime{500};

template <class Wanted>
SideFacts facts_of(const Identifier& identifier, const Wanted& wanted) {
    const rdma_ucm_conn_param& given = wanted.conn_param;
    SideFacts facts;
    facts.queue_pair = given.qp_num & 0xffffff;
    facts.queue_pair_type = identifier.queue_pair_type;
    facts.queue_key = given.qkey != 0 ? given.qkey : kQueueKey;
    facts.first_packet = std::random_device{}() & 0xffffff;
    facts.responder_resources = given.responder_resources;
    facts.initiator_depth = given.initiator_depth;
    facts.flow_control = given.flow_control;
    facts.retries = std::min<std::uint8_t>(given.retry_count, 7);
    facts.rnr_retries = std::min<std::uint8_t>(given.rnr_retry_count, 7);
    facts.shared_receives = given.srq;
    facts.ece_vendor = wanted.ece.vendor_id;
    facts.ece_options = wanted.ece.attr_mod;
    facts.gid = gid_of(identifier.device.value_or(0), identifier.source).bytes;
    return facts;
}

// 0, or EINVAL if there is no room for them.
int put_private(PeerMessage& message, const std::uint8_t* data, std::uint8_t bytes,
                bool datagrams) {
    if (bytes > private_room(message.op, datagrams)) return EINVAL;
    std::memcpy(message.private_data.data(), data, bytes);
    message.private_bytes = bytes;
    return 0;
}

}  // namespace

int start_listening(ManagerState& state, const std::shared_ptr<Channel>& channel,
                    const Command& command) {
    const auto wanted = command.body<rdma_ucm_listen>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    if (identifier->state == State::idle)
        if (const int error = bind_to(*identifier, any_endpoint(AF_INET)); error != 0) return error;
    if (identifier->state != State::bound) return EINVAL;
    if (identifier->shares_port) {
        // Only one listens: the port must be free but for this claim.
        identifier->claim.close();
        const ClaimTerms terms{identifier->space, identifier->only_family.value_or(true), false};
        const int error = claim_port(identifier->source, terms, identifier->claim);
        if (error != 0) return error;
    }
    identifier->room = wanted.backlog == 0 ? kMaxBacklog : std::min(wanted.backlog, kMaxBacklog);
    if (::listen(identifier->claim.get(), SOMAXCONN) != 0) return errno;
    state.watcher.start();
    identifier->state = State::listening;
    return state.watcher.add(identifier->claim, identifier->handle);
}

int request_connection(ManagerState& state, const std::shared_ptr<Channel>& channel,
                       const Command& command) {
    const auto wanted = command.body<rdma_ucm_connect>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    if (identifier->state != State::route_known || wanted.conn_param.valid == 0) return EINVAL;
    PeerMessage request;
    request.op = PeerOp::request;
    request.source = identifier->source;
    request.destination = identifier->destination;
    if (put_private(request, wanted.conn_param.private_data, wanted.conn_param.private_data_len,
                    identifier->datagrams()) != 0)
        return EINVAL;
    request.side = identifier->ours = facts_of(*identifier, wanted);
    state.watcher.start();
    identifier->unsent_request = request;
    identifier->state = State::asking;
    identifier->deadline = Clock::now() + state.answer_time;
    identifier->listener_by = Clock::now() + kListenerTime;
    state.peers.send_request(*identifier);
    state.watcher.wake();
    return 0;
}

int accept_connection(ManagerState& state, const std::shared_ptr<Channel>& channel,
                      const Command& command) {
    const auto wanted = command.body<rdma_ucm_accept>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    PeerMessage message;
    if (wanted.conn_param.valid == 0) {
        if (identifier->state != State::answered) return EINVAL;
        message.op = PeerOp::ready;
        if (!send_message(identifier->link.get(), message)) return EINVAL;
        identifier->state = State::connected;
        return 0;
    }
    if (identifier->state != State::asked) return EINVAL;
    message.op = PeerOp::reply;
    if (put_private(message, wanted.conn_param.private_data, wanted.conn_param.private_data_len,
                    identifier->datagrams()) != 0)
        return EINVAL;
    message.side = facts_of(*identifier, wanted);
    // Its queue pair may be set up already.
    message.side.first_packet = identifier->ours.first_packet;
    if (!send_message(identifier->link.get(), message)) return EINVAL;
    identifier->ours = message.side;
    identifier->has_accepted = true;
    identifier->user_id = wanted.uid;
    if (identifier->datagrams()) {
        state.watcher.remove(identifier->link);
        identifier->state = State::connected;
        return 0;
    }
    identifier->state = State::accepting;
    identifier->deadline = Clock::now() + state.answer_time;
    state.watcher.wake();
    return 0;
}

int reject_connection(ManagerState& state, const std::shared_ptr<Channel>& channel,
                      const Command& command) {
    const auto wanted = command.body<rdma_ucm_reject>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    if (wanted.reason != 0 && wanted.reason != kRejectedByProgram &&
        wanted.reason != kOptionRefused)
        return EINVAL;
    if (identifier->state != State::asked && identifier->state != State::answered) return EINVAL;
    PeerMessage message;
    message.op = PeerOp::reject;
    message.reason = wanted.reason != 0 ? wanted.reason : std::uint32_t{kRejectedByProgram};
    if (identifier->datagrams()) message.reason = kDatagramsRejected;
    if (put_private(message, wanted.private_data, wanted.private_data_len,
                    identifier->datagrams()) != 0)
        return EINVAL;
    send_message(identifier->link.get(), message);
    state.watcher.remove(identifier->link);
    identifier->state = State::over;
    return 0;
}

int end_connection(ManagerState& state, const std::shared_ptr<Channel>& channel,
                   const Command& command) {
    Identifier* const identifier =
        state.identifiers.find(channel, command.body<rdma_ucm_disconnect>().id);
    if (identifier == nullptr) return ENOENT;
    if (identifier->datagrams() || identifier->state <= State::listening) return EINVAL;
    PeerMessage message;
    if (identifier->state == State::left_by_peer) {
        message.op = PeerOp::disconnected;
        if (identifier->link) send_message(identifier->link.get(), message);
        if (identifier->deadline) state.peers.run_out(*identifier);  // it had not been told yet
        state.peers.part(*identifier);
        return 0;
    }
    // Said before there is a connection, or twice, it means nothing.
    if (identifier->state != State::connected) return 0;
    message.op = PeerOp::disconnect;
    send_message(identifier->link.get(), message);
    identifier->state = State::leaving;
    identifier->deadline = Clock::now() + state.answer_time;
    state.watcher.wake();
    return 0;
}

// The program has seen the peer's first message before the peer said that it is ready.
int note_establishment(ManagerState& state, const std::shared_ptr<Channel>& channel,
                       const Command& command) {
    const auto wanted = command.body<rdma_ucm_notify>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    if (wanted.event != IBV_EVENT_COMM_EST || identifier->datagrams()) return EINVAL;
    if (identifier->state == State::connected) return EISCONN;
    if (identifier->state != State::accepting) return EINVAL;
    state.peers.establish(*identifier);
    return 0;
}

}  // namespace verbatim::rdmacm
