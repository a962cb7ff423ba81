// Messages of peers, ends of links, and deadlines.
#include "peer_events.hpp"

#include <algorithm>
#include <cerrno>

#include "events.hpp"

namespace verbatim::rdmacm {
namespace {

// Listeners that are not there yet, or whose processes do not run for a while, are tried again.
constexpr std::chrono::milliseconds kRetryPause{10};
// After a connection packets of it could still be on their way; half a second, as over RoCE.
constexpr std::chrono::milliseconds kWaitOut{500};
// A goodbye is told this much later. Between cards it takes its time, and programs rely on it that
// they have found the completions of what was said before: libfabric throws away those that come
// with a connection's end. Threads on a busy machine may wait so long for a core.
constexpr std::chrono::milliseconds kFarewell{20};

}  // namespace

PeerEvents::Time PeerEvents::meet_deadlines(IdentifierTable& identifiers, Time now) {
    auto next = Time::max();
    for (auto& [handle, identifier] : identifiers.all()) {
        if (identifier.unsent_request) {
            send_request(identifier);
            if (identifier.unsent_request) next = std::min(next, now + kRetryPause);
        }
        if (identifier.deadline && *identifier.deadline <= now) run_out(identifier);
        if (identifier.deadline) next = std::min(next, *identifier.deadline);
    }
    return next;
}

void PeerEvents::hear(Identifier& identifier) {
    while (identifier.link) {
        PeerMessage message;
        switch (receive_message(identifier.link.get(), message)) {
            case Received::nothing:
                return;
            case Received::message:
                obey(identifier, message);
                break;
            case Received::ended:
                watcher_.remove(identifier.link);
                return lose(identifier);
        }
    }
}

// What comes when it should not says nothing.
void PeerEvents::obey(Identifier& identifier, const PeerMessage& message) {
    const State state = identifier.state;
    switch (message.op) {
        case PeerOp::reply:
            if (state == State::asking) take_reply(identifier, message);
            return;
        case PeerOp::ready:
            if (state == State::accepting) establish(identifier);
            return;
        case PeerOp::reject:
            if (state < State::connected) take_refusal(identifier, message);
            return;
        case PeerOp::disconnect:
            if (state == State::accepting || state == State::connected) leave(identifier);
            if (state == State::leaving) part(identifier);  // both at once
            return;
        case PeerOp::disconnected:
            if (state == State::leaving) part(identifier);
            return;
        default:
            return;
    }
}

void PeerEvents::take_reply(Identifier& identifier, const PeerMessage& reply) {
    identifier.deadline.reset();
    identifier.theirs = reply.side;
    if (!identifier.datagrams()) {
        identifier.state = State::answered;
        return raise_event(identifier, message_event(EventType::connect_response, reply, false));
    }
    watcher_.remove(identifier.link);
    identifier.state = State::connected;
    raise_event(identifier, datagram_event(identifier, reply));
}

void PeerEvents::take_refusal(Identifier& identifier, const PeerMessage& refusal) {
    watcher_.remove(identifier.link);
    identifier.deadline.reset();
    identifier.unsent_request.reset();
    identifier.state = State::over;
    const auto type = identifier.datagrams() ? EventType::unreachable : EventType::rejected;
    raise_event(identifier, message_event(type, refusal, identifier.datagrams()));
}

void PeerEvents::establish(Identifier& identifier) {
    identifier.deadline.reset();
    identifier.state = State::connected;
    raise_event(identifier, plain_event(EventType::established));
}

// The peer has left: the program is to answer that, which ends the connection.
void PeerEvents::leave(Identifier& identifier) {
    identifier.state = State::left_by_peer;
    identifier.deadline = Clock::now() + kFarewell;
}

// The link has ended: the peer's program has destroyed its identifier, or died.
void PeerEvents::lose(Identifier& identifier) {
    switch (identifier.state) {
        case State::asking:
        case State::answered:
        case State::asked:
        case State::accepting:
            return take_refusal(
                identifier,
                refusal_of(identifier.datagrams() ? kDatagramsRejected : kRejectedByProgram));
        case State::connected:
            return leave(identifier);
        case State::leaving:
            return part(identifier);
        default:
            return;
    }
}

// The connection is over on both sides.
void PeerEvents::part(Identifier& identifier, int status) {
    watcher_.remove(identifier.link);
    if (identifier.state == State::leaving)
        raise_event(identifier, plain_event(EventType::disconnected, status));
    identifier.state = State::over;
    identifier.deadline = Clock::now() + kWaitOut;
    watcher_.wake();
}

void PeerEvents::run_out(Identifier& identifier) {
    identifier.deadline.reset();
    switch (identifier.state) {
        case State::asking:
        case State::accepting:
            watcher_.remove(identifier.link);
            identifier.unsent_request.reset();
            identifier.state = State::over;
            return raise_event(identifier, plain_event(EventType::unreachable, -ETIMEDOUT));
        case State::leaving:
            return part(identifier, -ETIMEDOUT);
        case State::left_by_peer:
            return raise_event(identifier, plain_event(EventType::disconnected));
        case State::over:
            return raise_event(identifier, plain_event(EventType::waited_out));
        default:
            return;
    }
}

// Kept for later if the listener has no time now, or there is none yet.
void PeerEvents::send_request(Identifier& identifier) {
    const int error = link_to(identifier.destination, identifier.space, identifier.link);
    if (error == EAGAIN || (error == ECONNREFUSED && Clock::now() < identifier.listener_by)) return;
    const PeerMessage request = *identifier.unsent_request;
    identifier.unsent_request.reset();
    const bool sent = error == 0 && watcher_.add(identifier.link, identifier.handle) == 0 &&
                      send_message(identifier.link.get(), request);
    if (sent) return;
    const bool datagrams = identifier.datagrams();
    take_refusal(identifier, refusal_of(datagrams ? kNoDatagramsHere : kNobodyListens));
}

}  // namespace verbatim::rdmacm
