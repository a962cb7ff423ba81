// Neighbour discovery of IPv6 (RFC 4861, sections 4.3, 4.4 and 7): a question for one address goes
// to the few that end like it, the answer to the one that asked.
#include <cstring>

#include "frame_fields.hpp"
#include "neighbour_packets.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::byte kDiscoveryProtocol{58}, kMostHops{255};  // routers have passed none on
constexpr std::byte kSolicitation{135}, kAdvertisement{136};
constexpr std::uint8_t kMulticast = 0xff;
constexpr std::size_t kIcmpAt = kEthernetBytes + kIpv6HeaderBytes;
constexpr std::size_t kMessageBytes = 24, kOptionUnit = 8;
constexpr std::byte kSourceOption{1}, kTargetOption{2};
constexpr IpAddress kNoAddress{}, kAllNodes{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

IpAddress asked_group(const IpAddress& target) noexcept {
    IpAddress group{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
    std::memcpy(group.data() + 13, target.data() + 13, 3);
    return group;
}

MacAddress mac_of_group(const IpAddress& group) noexcept {
    MacAddress mac{0x33, 0x33};
    std::memcpy(mac.data() + 2, group.data() + 12, 4);
    return mac;
}

// Over the addresses, the length and the protocol, and the message; 0: the one within it is right.
std::uint16_t sum_of(const std::byte* ip, std::size_t message_bytes) noexcept {
    std::uint32_t sum = static_cast<std::uint32_t>(message_bytes) +
                        std::to_integer<std::uint32_t>(kDiscoveryProtocol);
    for (std::size_t i = 8; i < kIpv6HeaderBytes; i += 2) sum += be16_at(ip + i);
    const std::byte* const message = ip + kIpv6HeaderBytes;
    for (std::size_t i = 0; i + 1 < message_bytes; i += 2) sum += be16_at(message + i);
    if (message_bytes % 2 != 0)
        sum += std::to_integer<std::uint32_t>(message[message_bytes - 1]) << 8;
    return folded(sum);
}

// The MAC address that an option of this kind has, else that of the frame. False: the options are
// malformed.
bool find_mac(std::span<const std::byte> options, std::byte kind, MacAddress& mac) noexcept {
    while (options.size() >= kOptionUnit) {
        const std::size_t bytes = kOptionUnit * std::to_integer<std::size_t>(options[1]);
        if (bytes == 0 || bytes > options.size()) return false;
        if (options[0] == kind && bytes == kOptionUnit)
            std::memcpy(mac.data(), options.data() + 2, mac.size());
        options = options.subspan(bytes);
    }
    return options.empty();
}

// A whole message of the kind that no router has passed on; empty: none.
std::span<const std::byte> message_in(std::span<const std::byte> frame) noexcept {
    if (frame.size() < kIcmpAt + kMessageBytes || be16_at(frame.data() + 12) != kIpv6Type)
        return {};
    const std::byte* const ip = frame.data() + kEthernetBytes;
    const std::size_t bytes = be16_at(ip + 4);
    if ((ip[0] & std::byte{0xf0}) != std::byte{0x60} || ip[6] != kDiscoveryProtocol ||
        ip[7] != kMostHops || bytes < kMessageBytes || kIcmpAt + bytes > frame.size())
        return {};
    if (sum_of(ip, bytes) != 0) return {};
    return frame.subspan(kIcmpAt, bytes);
}

struct Target {
    IpAddress address;
    MacAddress mac;
};

// One that has no address yet only wants to know whether it may have this one: all are told.
Target target_of(const NeighbourPacket& packet) noexcept {
    const bool asks = packet.kind == NeighbourPacket::Kind::question;
    if (!asks && packet.target != kNoAddress) return {packet.target, packet.target_mac};
    const IpAddress group = asks ? asked_group(packet.target) : kAllNodes;
    return {group, mac_of_group(group)};
}

NeighbourFrame headers_to(const Target& to, const NeighbourPacket& packet) noexcept {
    NeighbourFrame frame;
    frame.count = kIcmpAt + kMessageBytes + kOptionUnit;
    std::byte* const start = frame.bytes.data();
    std::memcpy(start, to.mac.data(), to.mac.size());
    std::memcpy(start + to.mac.size(), packet.sender_mac.data(), packet.sender_mac.size());
    put16(start + 12, kIpv6Type);
    std::byte* const ip = start + kEthernetBytes;
    ip[0] = std::byte{0x60};
    put16(ip + 4, kMessageBytes + kOptionUnit);
    ip[6] = kDiscoveryProtocol;
    ip[7] = kMostHops;
    std::memcpy(ip + 8, packet.sender.data(), packet.sender.size());
    std::memcpy(ip + 24, to.address.data(), to.address.size());
    return frame;
}

}  // namespace

bool parse_discovery(std::span<const std::byte> frame, NeighbourPacket& packet) noexcept {
    const auto message = message_in(frame);
    if (message.empty() || message[1] != std::byte{0}) return false;
    const bool asks = message[0] == kSolicitation;
    if (!asks && message[0] != kAdvertisement) return false;
    const IpAddress target = ipv6_at(message.data() + 8);
    const IpAddress from = ipv6_at(frame.data() + kEthernetBytes + 8);
    if (target[0] == kMulticast || from[0] == kMulticast) return false;
    if (is_mapped({target, 0}) || is_mapped({from, 0})) return false;
    std::memcpy(packet.sender_mac.data(), frame.data() + packet.sender_mac.size(),
                packet.sender_mac.size());
    packet.target_mac = {};
    packet.kind = asks ? NeighbourPacket::Kind::question : NeighbourPacket::Kind::answer;
    packet.sender = asks ? from : target;
    packet.target = asks ? target : ipv6_at(frame.data() + kEthernetBytes + 24);
    return find_mac(message.subspan(kMessageBytes), asks ? kSourceOption : kTargetOption,
                    packet.sender_mac);
}

NeighbourFrame discovery_frame(const NeighbourPacket& packet) noexcept {
    constexpr std::byte kSolicited{0x40}, kReplaces{0x20};
    const bool asks = packet.kind == NeighbourPacket::Kind::question;
    const Target to = target_of(packet);
    NeighbourFrame frame = headers_to(to, packet);
    std::byte* const ip = frame.bytes.data() + kEthernetBytes;
    std::byte* const message = ip + kIpv6HeaderBytes;
    message[0] = asks ? kSolicitation : kAdvertisement;
    if (!asks) message[4] = kReplaces | (to.address == kAllNodes ? std::byte{} : kSolicited);
    const IpAddress& about = asks ? packet.target : packet.sender;
    std::memcpy(message + 8, about.data(), about.size());
    message[kMessageBytes] = asks ? kSourceOption : kTargetOption;
    message[kMessageBytes + 1] = std::byte{1};
    std::memcpy(message + kMessageBytes + 2, packet.sender_mac.data(), packet.sender_mac.size());
    put16(message + 2, sum_of(ip, kMessageBytes + kOptionUnit));
    return frame;
}

}  // namespace verbatim::softnic
