// Headers as a socket that forbids fragments and is not connected sends them.
#include "packet_headers.hpp"

#include <cstring>

namespace verbatim::softnic {
namespace {

constexpr std::size_t kIpv4 = 20, kIpv6 = 40, kUdp = 8;

void put_big_endian(std::byte* to, std::size_t value) noexcept {
    to[0] = static_cast<std::byte>(value >> 8);
    to[1] = static_cast<std::byte>(value);
}

// RFC 1071.
std::size_t internet_checksum(const std::byte* bytes, std::size_t count) noexcept {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count; i += 2)
        sum += std::to_integer<std::size_t>(bytes[i]) << 8 |
               std::to_integer<std::size_t>(bytes[i + 1]);
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

}  // namespace

PacketHeaders::PacketHeaders(const StreamPlace& from, const StreamPlace& to) noexcept
    : ip_bytes_(is_mapped(from) ? kIpv4 : kIpv6) {
    constexpr std::byte kVersion4{0x45}, kVersion6{0x60}, kNoFragments{0x40}, kHops{64}, kIsUdp{17};
    constexpr std::byte kMayBeMarked4{0x02}, kMayBeMarked6{0x20};  // of the traffic class: ECT(0)
    constexpr std::size_t kMapped = 12;
    std::byte* const ip = bytes_.data();
    if (ip_bytes_ == kIpv4) {
        ip[0] = kVersion4, ip[1] = kMayBeMarked4, ip[6] = kNoFragments, ip[8] = kHops,
        ip[9] = kIsUdp;
        std::memcpy(ip + 12, from.address.data() + kMapped, 4);
        std::memcpy(ip + 16, to.address.data() + kMapped, 4);
    } else {
        ip[0] = kVersion6, ip[1] = kMayBeMarked6, ip[6] = kIsUdp, ip[7] = kHops;
        std::memcpy(ip + 8, from.address.data(), from.address.size());
        std::memcpy(ip + 24, to.address.data(), to.address.size());
    }
    put_big_endian(ip + ip_bytes_, from.port);
    put_big_endian(ip + ip_bytes_ + 2, to.port);
}

void PacketHeaders::set_traffic(std::uint8_t traffic_class, std::uint8_t hops) noexcept {
    constexpr std::byte kVersion6{0x60};
    std::byte* const ip = bytes_.data();
    if (ip_bytes_ == kIpv4) {
        ip[1] = std::byte{traffic_class}, ip[8] = std::byte{hops};
        return;
    }
    ip[0] = kVersion6 | std::byte{traffic_class} >> 4;
    ip[1] = std::byte{traffic_class} << 4, ip[7] = std::byte{hops};
}

std::span<const std::byte> PacketHeaders::write(std::array<std::byte, kMostBytes>& into,
                                                std::size_t datagram_bytes,
                                                std::uint16_t identification) const noexcept {
    into = bytes_;
    std::byte* const ip = into.data();
    const std::size_t udp_bytes = kUdp + datagram_bytes;
    if (ip_bytes_ == kIpv4) {
        put_big_endian(ip + 2, kIpv4 + udp_bytes);
        put_big_endian(ip + 4, identification);
        put_big_endian(ip + 10, internet_checksum(ip, kIpv4));
    } else {
        put_big_endian(ip + 4, udp_bytes);
    }
    put_big_endian(ip + ip_bytes_ + 4, udp_bytes);
    return std::span(into.data(), ip_bytes_ + kUdp);
}

}  // namespace verbatim::softnic
