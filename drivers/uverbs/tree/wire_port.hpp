// The way of the devices' packets, which the environment may set: to queue pairs of this machine
// through shared memory, or to any RoCE device by UDP or by a device of DPDK, which the first
// device has. Threads: any.
#pragma once

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/uverbs/device_tree.hpp>

namespace verbatim::uverbs {

enum class PacketWay : std::uint8_t { none, sockets, dpdk };

// Of a device, by its index. Throws Error(config_error).
inline PacketWay packet_way(int index) {
    const char* const text = std::getenv(DeviceTree::kPortVariable);
    const std::string_view port = text == nullptr ? "shm" : text;
    if (!DeviceTree::allows_port(port))
        throw Error(Errc::config_error, DeviceTree::kPortVariable,
                    fmt::format("{} is not allowed", port),
                    fmt::format("it must be {}", DeviceTree::kAllowedPorts));
    if (port == "shm") return PacketWay::none;
    if (port == "udp") return PacketWay::sockets;
    return index == 0 ? PacketWay::dpdk : PacketWay::none;
}

// As GIDs have it: IPv6, or IPv4-mapped. False: it is none.
inline bool parse_address(const char* text, std::array<std::uint8_t, 16>& address) noexcept {
    if (inet_pton(AF_INET6, text, address.data()) == 1) return true;
    address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return inet_pton(AF_INET, text, &address[12]) == 1;
}

// The first IPv4 address that other machines can reach; zeros: there is none.
inline std::array<std::uint8_t, 16> first_address() noexcept {
    std::array<std::uint8_t, 16> address{};
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return address;
    for (const ifaddrs* here = list; here != nullptr; here = here->ifa_next) {
        if (here->ifa_addr == nullptr || here->ifa_addr->sa_family != AF_INET) continue;
        sockaddr_in name{};
        std::memcpy(&name, here->ifa_addr, sizeof name);
        constexpr std::uint32_t kLoopback = 127;
        if (ntohl(name.sin_addr.s_addr) >> 24 == kLoopback) continue;
        address[10] = address[11] = 0xff;
        std::memcpy(&address[12], &name.sin_addr, sizeof name.sin_addr);
        break;
    }
    freeifaddrs(list);
    return address;
}

// The address whose packets the first device has; zeros: that of the loopback. Read once.
inline const std::array<std::uint8_t, 16>& packet_address() noexcept {
    static const auto address = [] {
        std::array<std::uint8_t, 16> result{};
        const char* const port = std::getenv(DeviceTree::kPortVariable);
        if (port == nullptr || std::string_view(port) == "shm") return result;
        const char* const text = std::getenv(DeviceTree::kAddressVariable);
        if (text == nullptr || !parse_address(text, result)) return first_address();
        return result;
    }();
    return address;
}

}  // namespace verbatim::uverbs
