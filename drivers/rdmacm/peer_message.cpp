// Messages in and out; those that come in are checked here.
#include "peer_message.hpp"

#include <span>

#include "../softnic/host/local_socket.hpp"

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
    return softnic::send_packet(link, std::as_bytes(std::span(&message, 1)));
}

Received receive_message(int link, PeerMessage& message) noexcept {
    using softnic::Packet;
    const Packet packet =
        softnic::receive_packet(link, std::as_writable_bytes(std::span(&message, 1)), nullptr);
    if (packet.state == Packet::State::nothing) return Received::nothing;
    const bool whole = packet.state == Packet::State::whole && packet.bytes == sizeof message;
    return whole && makes_sense(message) ? Received::message : Received::ended;
}

}  // namespace verbatim::rdmacm
