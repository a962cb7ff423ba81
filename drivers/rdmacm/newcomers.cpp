// Links come in and become requests.
#include "newcomers.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "device_gid.hpp"
#include "events.hpp"

namespace verbatim::rdmacm {
namespace {

constexpr std::chrono::seconds kRequestTime{5};
constexpr std::size_t kMaxNewcomers = 4096;

}  // namespace

bool Newcomers::welcome(Identifier& listener) {
    for (;;) {
        softnic::Descriptor link(
            accept4(listener.claim.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!link) return errno != EMFILE && errno != ENFILE;
        if (!same_user(link.get()) || links_.size() >= kMaxNewcomers) continue;
        const std::uint64_t key = ++last_key_;
        if (watcher_.add(link, key) != 0) continue;
        links_[key] = {std::move(link), listener.handle, Clock::now() + kRequestTime};
    }
}

void Newcomers::hear(std::uint64_t key) {
    PeerMessage request;
    const Received received = receive_message(links_.at(key).link.get(), request);
    if (received == Received::nothing) return;
    Newcomer newcomer = std::move(links_.at(key));
    links_.erase(key);
    Identifier* const listener = identifiers_.find(newcomer.listener);
    if (received == Received::message && request.op == PeerOp::request && listener != nullptr &&
        listener->state == State::listening)
        take_request(*listener, newcomer.link, request);
    watcher_.remove(newcomer.link);
}

namespace {

// The type that a peer's queue pair has: XRC's two sides differ.
std::uint8_t opposite(std::uint8_t type) {
    if (type == IBV_QPT_XRC_SEND) return IBV_QPT_XRC_RECV;
    return type == IBV_QPT_XRC_RECV ? std::uint8_t{IBV_QPT_XRC_SEND} : type;
}

}  // namespace

// Takes the link over, unless the listener has no room for more requests, or waits for others.
void Newcomers::take_request(Identifier& listener, softnic::Descriptor& link,
                             const PeerMessage& request) {
    const bool fits = request.side.queue_pair_type == opposite(listener.queue_pair_type);
    if (listener.room == 0 || !fits) {
        const bool datagrams = listener.datagrams();
        send_message(link.get(), refusal_of(datagrams ? kDatagramsRejected : kRejectedByProgram));
        return;
    }
    --listener.room;
    Identifier& made = identifiers_.add(listener.channel, listener.space, listener.queue_pair_type);
    made.passive = true;
    made.state = State::asked;
    made.source = request.destination;
    made.destination = request.source;
    made.device = device_of(made.source);
    made.traffic_class = listener.traffic_class;
    made.acknowledge_timeout = listener.acknowledge_timeout;
    made.theirs = request.side;
    made.ours.first_packet = request.side.first_packet ^ 0x555555;
    made.link = std::move(link);
    watcher_.rename(made.link, made.handle);
    rdma_ucm_event_resp facts =
        message_event(EventType::connect_request, request, listener.datagrams());
    facts.uid = listener.user_id;
    facts.id = made.handle;
    listener.channel->push({listener.handle, facts, made.handle});
}

Clock::time_point Newcomers::drop_silent(Clock::time_point now) {
    auto next = Clock::time_point::max();
    std::vector<std::uint64_t> silent;
    for (const auto& [key, newcomer] : links_)
        if (newcomer.deadline <= now)
            silent.push_back(key);
        else
            next = std::min(next, newcomer.deadline);
    for (const std::uint64_t key : silent) {
        watcher_.remove(links_.at(key).link);
        links_.erase(key);
    }
    return next;
}

}  // namespace verbatim::rdmacm
