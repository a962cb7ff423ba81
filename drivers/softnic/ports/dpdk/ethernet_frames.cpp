// Headers of frames, byte by byte.
#include "ethernet_frames.hpp"

#include <algorithm>
#include <cstring>

#include "../roce/packets/packet.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::uint16_t kIpv4Type = 0x0800, kIpv6Type = 0x86dd, kArpType = 0x0806;
constexpr std::byte kUdpProtocol{17}, kHops{64}, kIpv4Start{0x45}, kIpv6Start{0x60};
constexpr std::size_t kMappedAt = 12;  // an IPv4 address within a mapped one
constexpr std::size_t kLeastPacket = sizeof(BaseHeader) + kChecksumBytes;

std::uint16_t be16_at(const std::byte* at) noexcept {
    return static_cast<std::uint16_t>(static_cast<unsigned>(at[0]) << 8 |
                                      static_cast<unsigned>(at[1]));
}

void put16(std::byte* at, std::size_t value) noexcept {
    at[0] = static_cast<std::byte>(value >> 8);
    at[1] = static_cast<std::byte>(value);
}

IpAddress mapped(const std::byte* ipv4) noexcept {
    IpAddress address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    std::memcpy(address.data() + kMappedAt, ipv4, 4);
    return address;
}

IpAddress ipv6_at(const std::byte* at) noexcept {
    IpAddress address;
    std::memcpy(address.data(), at, address.size());
    return address;
}

// Where the UDP header is; 0: it is no packet for that address.
std::size_t udp_of_ipv4(std::span<const std::byte> frame, const IpAddress& own,
                        FrameDatagram& datagram) noexcept {
    constexpr std::uint16_t kFragment = 0x3fff;
    const std::byte* const ip = frame.data() + kEthernetBytes;
    const std::size_t start = kEthernetBytes + kIpv4HeaderBytes;
    if (frame.size() < start + kUdpHeaderBytes + kLeastPacket || ip[0] != kIpv4Start) return 0;
    const std::size_t total = be16_at(ip + 2);
    const bool whole = kEthernetBytes + total <= frame.size() && (be16_at(ip + 6) & kFragment) == 0;
    if (!whole || ip[9] != kUdpProtocol || mapped(ip + 16) != own) return 0;
    if (total != kIpv4HeaderBytes + be16_at(frame.data() + start + 4)) return 0;
    datagram.from.address = mapped(ip + 12);
    return start;
}

std::size_t udp_of_ipv6(std::span<const std::byte> frame, const IpAddress& own,
                        FrameDatagram& datagram) noexcept {
    const std::byte* const ip = frame.data() + kEthernetBytes;
    const std::size_t start = kEthernetBytes + kIpv6HeaderBytes;
    if (frame.size() < start + kUdpHeaderBytes + kLeastPacket) return 0;
    const std::size_t carried = be16_at(ip + 4);
    const bool whole = (ip[0] & std::byte{0xf0}) == kIpv6Start && start + carried <= frame.size();
    if (!whole || ip[6] != kUdpProtocol || ipv6_at(ip + 24) != own) return 0;
    if (carried != be16_at(frame.data() + start + 4)) return 0;
    datagram.from.address = ipv6_at(ip + 8);
    return start;
}

std::uint16_t folded(std::uint32_t sum) noexcept {
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

}  // namespace

bool parse_datagram(std::span<std::byte> frame, const IpAddress& own,
                    FrameDatagram& datagram) noexcept {
    if (frame.size() < kEthernetBytes) return false;
    const std::uint16_t type = be16_at(frame.data() + 12);
    std::size_t udp = 0;
    if (type == kIpv4Type) udp = udp_of_ipv4(frame, own, datagram);
    if (type == kIpv6Type) udp = udp_of_ipv6(frame, own, datagram);
    if (udp == 0) return false;
    const std::byte* const header = frame.data() + udp;
    const std::size_t bytes = be16_at(header + 4);
    if (bytes < kUdpHeaderBytes + kLeastPacket) return false;
    datagram.from.port = be16_at(header);
    datagram.port = be16_at(header + 2);
    datagram.bytes = frame.subspan(udp + kUdpHeaderBytes, bytes - kUdpHeaderBytes);
    BaseHeader base;
    std::memcpy(&base, datagram.bytes.data(), sizeof base);
    datagram.queue_pair = base.queue_pair.native() & kSequenceMask;
    return true;
}

DatagramHeaders::DatagramHeaders(const MacAddress& own, const StreamPlace& from,
                                 const StreamPlace& to) noexcept
    : ip_bytes_(is_mapped(from) ? kIpv4HeaderBytes : kIpv6HeaderBytes) {
    std::memcpy(bytes_.data() + own.size(), own.data(), own.size());
    std::byte* const ip = bytes_.data() + kEthernetBytes;
    if (is_mapped(from)) {
        put16(bytes_.data() + 12, kIpv4Type);
        ip[0] = kIpv4Start;
        ip[6] = std::byte{0x40};  // no fragments
        ip[8] = kHops;
        ip[9] = kUdpProtocol;
        std::memcpy(ip + 12, from.address.data() + kMappedAt, 4);
        std::memcpy(ip + 16, to.address.data() + kMappedAt, 4);
        for (std::size_t i = 0; i < kIpv4HeaderBytes; i += 2) sum_ += be16_at(ip + i);
    } else {
        put16(bytes_.data() + 12, kIpv6Type);
        ip[0] = kIpv6Start;
        ip[6] = kUdpProtocol;
        ip[7] = kHops;
        std::memcpy(ip + 8, from.address.data(), from.address.size());
        std::memcpy(ip + 24, to.address.data(), to.address.size());
    }
    put16(ip + ip_bytes_, from.port);
    put16(ip + ip_bytes_ + 2, to.port);
}

void DatagramHeaders::set_destination(const MacAddress& mac) noexcept {
    std::memcpy(bytes_.data(), mac.data(), mac.size());
}

std::size_t DatagramHeaders::write(std::size_t datagram_bytes,
                                   std::span<std::byte, kMost> to) const noexcept {
    std::memcpy(to.data(), bytes_.data(), kMost);
    const std::size_t udp_bytes = kUdpHeaderBytes + datagram_bytes;
    std::byte* const ip = to.data() + kEthernetBytes;
    if (ip_bytes_ == kIpv4HeaderBytes) {
        const std::size_t total = kIpv4HeaderBytes + udp_bytes;
        put16(ip + 2, total);
        put16(ip + 10, folded(sum_ + static_cast<std::uint32_t>(total)));
    } else {
        put16(ip + 4, udp_bytes);
    }
    put16(ip + ip_bytes_ + 4, udp_bytes);
    return kEthernetBytes + ip_bytes_ + kUdpHeaderBytes;
}

// Of an ARP packet: types, lengths and kind, then the four addresses.
bool parse_arp(std::span<const std::byte> frame, ArpPacket& packet) noexcept {
    constexpr std::array<std::byte, 6> kIpv4OverEthernet{std::byte{0}, std::byte{1}, std::byte{8},
                                                         std::byte{0}, std::byte{6}, std::byte{4}};
    constexpr std::size_t kArpBytes = 28;
    if (frame.size() < kEthernetBytes + kArpBytes) return false;
    const std::byte* const arp = frame.data() + kEthernetBytes;
    if (be16_at(frame.data() + 12) != kArpType ||
        !std::equal(kIpv4OverEthernet.begin(), kIpv4OverEthernet.end(), arp))
        return false;
    packet.kind = static_cast<ArpPacket::Kind>(be16_at(arp + 6));
    std::memcpy(packet.sender_mac.data(), arp + 8, packet.sender_mac.size());
    packet.sender = mapped(arp + 14);
    std::memcpy(packet.target_mac.data(), arp + 18, packet.target_mac.size());
    packet.target = mapped(arp + 24);
    return packet.kind == ArpPacket::Kind::question || packet.kind == ArpPacket::Kind::answer;
}

ArpFrame arp_frame(const ArpPacket& packet) noexcept {
    ArpFrame frame{};
    const bool asks = packet.kind == ArpPacket::Kind::question;
    const MacAddress& to = asks ? kBroadcast : packet.target_mac;
    std::memcpy(frame.data(), to.data(), to.size());
    std::memcpy(frame.data() + to.size(), packet.sender_mac.data(), to.size());
    put16(frame.data() + 12, kArpType);
    std::byte* const arp = frame.data() + kEthernetBytes;
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
