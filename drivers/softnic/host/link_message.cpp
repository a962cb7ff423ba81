// Checks of what comes in; texts and nonces.
#include "link_message.hpp"

#include <sys/random.h>

#include <algorithm>

namespace verbatim::softnic {
namespace {

Received judge(const LinkMessage& message, const Packet& packet) noexcept {
    constexpr std::size_t kCommon = offsetof(LinkMessage, sequence);
    if (packet.bytes < kCommon || message.magic != kLinkMagic) return Received::malformed;
    if (message.version != kLinkVersion) return Received::other_version;
    if (packet.state == Packet::State::lossy && packet.bytes == sizeof message)
        return Received::no_descriptors;
    const bool whole = packet.state == Packet::State::whole && packet.bytes == sizeof message;
    return whole ? Received::message : Received::malformed;
}

}  // namespace

std::string LinkMessage::sentence() const {
    return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

void LinkMessage::set_sentence(const std::string& sentence) noexcept {
    text = {};
    std::copy_n(sentence.begin(), std::min(sentence.size(), text.size()), text.begin());
}

bool send_message(int socket, const LinkMessage& message, std::span<const int> files) noexcept {
    return send_packet(socket, std::as_bytes(std::span(&message, 1)), files);
}

Received receive_message(int socket, LinkMessage& message, std::vector<Descriptor>& files) {
    const Packet packet =
        receive_packet(socket, std::as_writable_bytes(std::span(&message, 1)), &files);
    if (packet.state == Packet::State::nothing) return Received::nothing;
    return packet.state == Packet::State::ended ? Received::closed : judge(message, packet);
}

Nonce random_nonce() {
    Nonce nonce;
    std::size_t got = 0;
    while (got < nonce.size()) {
        const ssize_t more = getrandom(nonce.data() + got, nonce.size() - got, 0);
        if (more > 0) got += static_cast<std::size_t>(more);
    }
    return nonce;
}

}  // namespace verbatim::softnic
