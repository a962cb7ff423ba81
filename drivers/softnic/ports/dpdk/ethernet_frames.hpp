// Formats of Ethernet frames: UDP datagrams in IPv4 and IPv6 packets. Addresses of IP are 16 bytes,
// IPv6 or IPv4-mapped. Nothing of a received frame is used before it was
// checked. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../tcp/meeting/stream_socket.hpp"
#include "library/ethernet_device.hpp"

namespace verbatim::softnic {

using IpAddress = std::array<std::uint8_t, 16>;

inline constexpr std::size_t kEthernetBytes = 14, kIpv4HeaderBytes = 20, kIpv6HeaderBytes = 40,
                             kUdpHeaderBytes = 8;

// A UDP datagram of a received frame. Its bytes are as long as a packet of RoCEv2 at least.
struct FrameDatagram {
    StreamPlace from;
    std::uint16_t port = 0;        // it goes there
    std::uint32_t queue_pair = 0;  // likewise, by the base header
    // Of the IP header; IPv6 has no identification.
    std::uint16_t identification = 0;
    std::uint8_t traffic_class = 0, hops = 0;
    std::span<std::byte> bytes;
};
// False: it is no whole datagram to that address.
bool parse_datagram(std::span<std::byte> frame, const IpAddress& own,
                    FrameDatagram& datagram) noexcept;
// The same of an IP packet without its frame.
bool parse_packet_to(std::span<std::byte> packet, const IpAddress& own,
                     FrameDatagram& datagram) noexcept;

// The headers of all datagrams one way. IPv4 has identification 0 and forbids fragments, as the
// checksums of packets (packet_checksum.hpp) suppose. UDP has no checksum: packets have theirs.
class DatagramHeaders {
  public:
    static constexpr std::size_t kMost = kEthernetBytes + kIpv6HeaderBytes + kUdpHeaderBytes;

    DatagramHeaders(const MacAddress& own, const StreamPlace& from, const StreamPlace& to) noexcept;

    void set_destination(const MacAddress& mac) noexcept;
    // For one of so many bytes. Returns the bytes of the headers.
    std::size_t write(std::size_t datagram_bytes, std::span<std::byte, kMost> to) const noexcept;

  private:
    std::array<std::byte, kMost> bytes_{};
    std::size_t ip_bytes_;
    std::uint32_t sum_ = 0;  // of the IPv4 header without its length
};

// The IPv6 address of the link that follows from a MAC address (RFC 4291, appendix A), and the way
// back: false for other addresses.
IpAddress link_local(const MacAddress& mac) noexcept;
bool mac_of(const IpAddress& address, MacAddress& mac) noexcept;

// Throw Error(invalid_argument) that names the key.
IpAddress parse_ip(const std::string& text, const char* key);
MacAddress parse_mac(const std::string& text, const char* key);

}  // namespace verbatim::softnic
