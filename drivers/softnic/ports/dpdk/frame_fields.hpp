// Fields of frames, in the order of the network, and the types of what frames carry. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ethernet_frames.hpp"

namespace verbatim::softnic {

inline constexpr std::uint16_t kIpv4Type = 0x0800, kIpv6Type = 0x86dd, kArpType = 0x0806;
inline constexpr std::size_t kMappedAt = 12;  // an IPv4 address within a mapped one

inline std::uint16_t be16_at(const std::byte* at) noexcept {
    return static_cast<std::uint16_t>(static_cast<unsigned>(at[0]) << 8 |
                                      static_cast<unsigned>(at[1]));
}

inline void put16(std::byte* at, std::size_t value) noexcept {
    at[0] = static_cast<std::byte>(value >> 8);
    at[1] = static_cast<std::byte>(value);
}

inline IpAddress mapped(const std::byte* ipv4) noexcept {
    IpAddress address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    std::memcpy(address.data() + kMappedAt, ipv4, 4);
    return address;
}

inline IpAddress ipv6_at(const std::byte* at) noexcept {
    IpAddress address;
    std::memcpy(address.data(), at, address.size());
    return address;
}

// The checksum of Internet protocols (RFC 1071) from the sum of their 16-bit words.
inline std::uint16_t folded(std::uint32_t sum) noexcept {
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

}  // namespace verbatim::softnic
