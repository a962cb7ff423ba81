// Headers of frames, byte by byte.
#include "ethernet_frames.hpp"

#include <cstring>

#include "../roce/packets/packet.hpp"
#include "frame_fields.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::byte kUdpProtocol{17}, kHops{64}, kIpv4Start{0x45}, kIpv6Start{0x60};
constexpr std::size_t kLeastPacket = sizeof(BaseHeader) + kChecksumBytes;

// Where the UDP header is; 0: it is no packet for that address.
std::size_t udp_of_ipv4(std::span<const std::byte> packet, const IpAddress& own,
                        FrameDatagram& datagram) noexcept {
    constexpr std::uint16_t kFragment = 0x3fff;
    const std::byte* const ip = packet.data();
    if (packet.size() < kIpv4HeaderBytes + kUdpHeaderBytes + kLeastPacket || ip[0] != kIpv4Start)
        return 0;
    const std::size_t total = be16_at(ip + 2);
    const bool whole = total <= packet.size() && (be16_at(ip + 6) & kFragment) == 0;
    if (!whole || ip[9] != kUdpProtocol || mapped(ip + 16) != own) return 0;
    if (total != kIpv4HeaderBytes + be16_at(ip + kIpv4HeaderBytes + 4)) return 0;
    datagram.from.address = mapped(ip + 12);
    datagram.identification = be16_at(ip + 4);
    datagram.traffic_class = std::to_integer<std::uint8_t>(ip[1]);
    datagram.hops = std::to_integer<std::uint8_t>(ip[8]);
    return kIpv4HeaderBytes;
}

std::size_t udp_of_ipv6(std::span<const std::byte> packet, const IpAddress& own,
                        FrameDatagram& datagram) noexcept {
    const std::byte* const ip = packet.data();
    if (packet.size() < kIpv6HeaderBytes + kUdpHeaderBytes + kLeastPacket) return 0;
    const std::size_t carried = be16_at(ip + 4);
    const bool whole =
        (ip[0] & std::byte{0xf0}) == kIpv6Start && kIpv6HeaderBytes + carried <= packet.size();
    if (!whole || ip[6] != kUdpProtocol || ipv6_at(ip + 24) != own) return 0;
    if (carried != be16_at(ip + kIpv6HeaderBytes + 4)) return 0;
    datagram.from.address = ipv6_at(ip + 8);
    datagram.traffic_class = static_cast<std::uint8_t>(be16_at(ip) >> 4);
    datagram.hops = std::to_integer<std::uint8_t>(ip[7]);
    return kIpv6HeaderBytes;
}

}  // namespace

bool parse_packet_to(std::span<std::byte> packet, const IpAddress& own,
                     FrameDatagram& datagram) noexcept {
    const std::size_t udp = is_mapped({own, 0}) ? udp_of_ipv4(packet, own, datagram)
                                                : udp_of_ipv6(packet, own, datagram);
    if (udp == 0) return false;
    const std::byte* const header = packet.data() + udp;
    const std::size_t bytes = be16_at(header + 4);
    if (bytes < kUdpHeaderBytes + kLeastPacket) return false;
    datagram.from.port = be16_at(header);
    datagram.port = be16_at(header + 2);
    datagram.bytes = packet.subspan(udp + kUdpHeaderBytes, bytes - kUdpHeaderBytes);
    BaseHeader base;
    std::memcpy(&base, datagram.bytes.data(), sizeof base);
    datagram.queue_pair = base.queue_pair.native() & kSequenceMask;
    return true;
}

bool parse_datagram(std::span<std::byte> frame, const IpAddress& own,
                    FrameDatagram& datagram) noexcept {
    if (frame.size() < kEthernetBytes) return false;
    const std::uint16_t type = is_mapped({own, 0}) ? kIpv4Type : kIpv6Type;
    return be16_at(frame.data() + 12) == type &&
           parse_packet_to(frame.subspan(kEthernetBytes), own, datagram);
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

}  // namespace verbatim::softnic
