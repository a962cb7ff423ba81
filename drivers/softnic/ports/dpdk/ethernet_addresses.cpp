// Addresses as text, and those that follow from each other.
#include <arpa/inet.h>

#include <cstdio>

#include <verbatim/driver/error.hpp>

#include "ethernet_frames.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::size_t kBeforeIpv4 = 12;  // bytes before an IPv4 address

}  // namespace

IpAddress link_local(const MacAddress& mac) noexcept {
    return {
        0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2),
        mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

bool mac_of(const IpAddress& address, MacAddress& mac) noexcept {
    mac = {static_cast<std::uint8_t>(address[8] ^ 2),
           address[9],
           address[10],
           address[13],
           address[14],
           address[15]};
    return link_local(mac) == address;
}

IpAddress parse_ip(const std::string& text, const char* key) {
    IpAddress address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (inet_pton(AF_INET, text.c_str(), address.data() + kBeforeIpv4) == 1) return address;
    if (inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
    throw Error(Errc::invalid_argument, key, "\"" + text + "\" is no IP address",
                "write one such as \"10.0.0.1\", without a prefix");
}

MacAddress parse_mac(const std::string& text, const char* key) {
    std::array<unsigned, 6> parts{};
    char more = 0;
    const int found = std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%c", &parts[0], &parts[1],
                                  &parts[2], &parts[3], &parts[4], &parts[5], &more);
    if (found != 6)
        throw Error(Errc::invalid_argument, key, "\"" + text + "\" is no MAC address",
                    "write one such as \"02:00:00:00:00:01\"");
    MacAddress mac;
    for (std::size_t i = 0; i < mac.size(); ++i) mac[i] = static_cast<std::uint8_t>(parts[i]);
    return mac;
}

}  // namespace verbatim::softnic
