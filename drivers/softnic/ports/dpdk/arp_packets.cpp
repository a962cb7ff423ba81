// ARP, and the choice between both kinds of questions.
#include <algorithm>
#include <cstring>

#include "frame_fields.hpp"
#include "neighbour_packets.hpp"

namespace verbatim::softnic {
namespace {

constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr std::size_t kShortestFrame = 60;

}  // namespace

bool parse_neighbour(std::span<const std::byte> frame, NeighbourPacket& packet) noexcept {
    return parse_arp(frame, packet) || parse_discovery(frame, packet);
}

NeighbourFrame neighbour_frame(const NeighbourPacket& packet) noexcept {
    return is_mapped({packet.target, 0}) ? arp_frame(packet) : discovery_frame(packet);
}

// Of an ARP packet: types, lengths and kind, then the four addresses.
bool parse_arp(std::span<const std::byte> frame, NeighbourPacket& packet) noexcept {
    constexpr std::array<std::byte, 6> kIpv4OverEthernet{std::byte{0}, std::byte{1}, std::byte{8},
                                                         std::byte{0}, std::byte{6}, std::byte{4}};
    constexpr std::size_t kArpBytes = 28;
    if (frame.size() < kEthernetBytes + kArpBytes) return false;
    const std::byte* const arp = frame.data() + kEthernetBytes;
    if (be16_at(frame.data() + 12) != kArpType ||
        !std::equal(kIpv4OverEthernet.begin(), kIpv4OverEthernet.end(), arp))
        return false;
    packet.kind = static_cast<NeighbourPacket::Kind>(be16_at(arp + 6));
    std::memcpy(packet.sender_mac.data(), arp + 8, packet.sender_mac.size());
    packet.sender = mapped(arp + 14);
    std::memcpy(packet.target_mac.data(), arp + 18, packet.target_mac.size());
    packet.target = mapped(arp + 24);
    return packet.kind == NeighbourPacket::Kind::question ||
           packet.kind == NeighbourPacket::Kind::answer;
}

NeighbourFrame arp_frame(const NeighbourPacket& packet) noexcept {
    NeighbourFrame frame;
    frame.count = kShortestFrame;
    const bool asks = packet.kind == NeighbourPacket::Kind::question;
    const MacAddress& to = asks ? kBroadcast : packet.target_mac;
    std::byte* const start = frame.bytes.data();
    std::memcpy(start, to.data(), to.size());
    std::memcpy(start + to.size(), packet.sender_mac.data(), to.size());
    put16(start + 12, kArpType);
    std::byte* const arp = start + kEthernetBytes;
    put16(arp, 1);
    put16(arp + 2, kIpv4Type);
    arp[4] = std::byte{6};
    arp[5] = std::byte{4};
    put16(arp + 6, static_cast<std::size_t>(packet.kind));
    std::memcpy(arp + 8, packet.sender_mac.data(), packet.sender_mac.size());
    std::memcpy(arp + 14, packet.sender.data() + kMappedAt, 4);
    std::memcpy(arp + 18, packet.target_mac.data(), packet.target_mac.size());
    std::memcpy(arp + 24, packet.target.data() + kMappedAt, 4);
    return frame;
}

}  // namespace verbatim::softnic
