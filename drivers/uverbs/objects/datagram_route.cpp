// One header for all datagrams.
#include "datagram_route.hpp"

#include <netinet/in.h>
#include <netinet/ip.h>

#include <array>
#include <cstring>

namespace verbatim::uverbs {
namespace {

// RFC 1071, over the header without options and with a checksum of 0.
std::uint16_t checksum(const iphdr& header) noexcept {
    std::array<std::uint16_t, sizeof header / 2> words;
    std::memcpy(words.data(), &header, sizeof header);
    std::uint32_t sum = 0;
    for (const std::uint16_t word : words) sum += word;
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

}  // namespace

softnic::GlobalRoute way_back(const Identity& identity) noexcept {
    constexpr std::uint8_t kHops = 64;
    iphdr header{};
    header.version = 4;
    header.ihl = sizeof header / 4;
    header.ttl = kHops;
    header.protocol = IPPROTO_UDP;
    header.saddr = header.daddr = htonl(INADDR_LOOPBACK + static_cast<unsigned>(identity.index));
    header.check = checksum(header);
    softnic::GlobalRoute route{};
    std::memcpy(route.data() + route.size() - sizeof header, &header, sizeof header);
    return route;
}

}  // namespace verbatim::uverbs
