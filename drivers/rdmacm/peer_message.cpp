// Messages in and out; those that come in are checked here.
#include "peer_message.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace verbatim::rdmacm {
namespace {

bool plausible(const Endpoint& endpoint) {
    return endpoint.family == AF_INET || endpoint.family == AF_INET6;
}

constexpr std::uint8_t kMostRetries = 7;  // three bits

bool makes_sense(const PeerMessage& message) {
    if (message.magic != kPeerMagic || message.version != kPeerVersion ||
        message.op < PeerOp::request || message.op > PeerOp::disconnected ||
        message.private_bytes > kMaxPrivateBytes || message.side.queue_pair >> 24 != 0 ||
        message.side.retries > kMostRetries || message.side.rnr_retries > kMostRetries)
        return false;
    return message.op != PeerOp::request ||
           (plausible(message.source) && plausible(message.destination));
}

}  // namespace

PeerMessage refusal_of(std::uint32_t reason) noexcept {
    PeerMessage refusal;
    refusal.op = PeerOp::reject;
    refusal.reason = reason;
    return refusal;
}

bool send_message(int link, const PeerMessage& message) noexcept {
    return send(link, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof message;
}

Received receive_message(int link, PeerMessage& message) noexcept {
    ssize_t bytes = recv(link, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
    // The peer closed without reading all that we sent. That is told once, before what it sent.
    if (bytes < 0 && errno == ECONNRESET)
        bytes = recv(link, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes < 0) return errno == EAGAIN || errno == EINTR ? Received::nothing : Received::ended;
    return bytes == sizeof message && makes_sense(message) ? Received::message : Received::ended;
}

}  // namespace verbatim::rdmacm
