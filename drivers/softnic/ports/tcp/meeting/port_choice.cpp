// Identity of hosts, and the rules of the choice.
#include "port_choice.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

namespace verbatim::softnic {
namespace {

std::uint64_t mixed(std::uint64_t sum, std::string_view text) noexcept {
    for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return sum;
}

// Why these two share no memory; empty: they do.
std::string_view obstacle(const QueuePairAddress& own, const QueuePairAddress& peer) noexcept {
    if ((own.ports & kShmOffered) == 0)
        return (own.ports & kUdpOffered) != 0 ? "this side's port is udp or dpdk"
                                              : "this side's port is tcp";
    if ((peer.ports & kShmOffered) == 0)
        return (peer.ports & kUdpOffered) != 0 ? "the peer's port is udp or dpdk"
                                               : "the peer's port is tcp";
    if (own.home.host == HostName{} || own.home.host != peer.home.host)
        return "the peer is on another host, or in another network or user namespace";
    const bool same_user_only = ((own.ports | peer.ports) & kSameUserOnly) != 0;
    if (same_user_only && own.home.user != peer.home.user) return "the peer is another user's";
    return {};
}

}  // namespace

HostName host_name() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string text;
    struct stat network {
    }, users{};
    if (!std::getline(file, text) || stat("/proc/self/ns/net", &network) != 0 ||
        stat("/proc/self/ns/user", &users) != 0)
        return {};
    text += fmt::format(" {} {} {}", network.st_dev, network.st_ino, users.st_ino);
    const std::array<std::uint64_t, 2> sums{mixed(0xcbf29ce484222325, text),
                                            mixed(0x84222325cbf29ce4, text)};
    HostName name;
    std::memcpy(name.data(), sums.data(), name.size());
    return name;
}

std::uint8_t ports_offered(PortKind kind, bool same_user_only) noexcept {
    const bool automatic = kind == PortKind::automatic;
    const bool packets = kind == PortKind::udp || kind == PortKind::dpdk;  // the same on the wire
    return static_cast<std::uint8_t>((automatic || kind == PortKind::shm ? kShmOffered : 0) |
                                     (automatic || kind == PortKind::tcp ? kTcpOffered : 0) |
                                     (automatic || packets ? kUdpOffered : 0) |
                                     (same_user_only ? kSameUserOnly : 0));
}

PortChoice choose_port(const QueuePairAddress& own, const QueuePairAddress& peer) {
    const std::string_view why = obstacle(own, peer);
    if (why.empty()) return {};
    const std::uint8_t common = own.ports & peer.ports;
    const bool streams = (common & kTcpOffered) != 0;
    if ((common & kUdpOffered) != 0) return {PortKind::udp, std::string(why), streams};
    if (streams) return {PortKind::tcp, std::string(why)};
    // Of shared memory the shm port itself says what is in its way. Some peers do not tell of their
    // ports: they have that one.
    const bool both_shm = (common & kShmOffered) != 0;
    if (both_shm || (peer.ports == 0 && (own.ports & kShmOffered) != 0)) return {};
    throw Error(Errc::unsupported, fmt::format("queue pair {}", own.number),
                fmt::format("the two sides have no port in common: {}", why),
                "set the same port on both sides, or \"auto\" ([device.softnic] port)");
}

}  // namespace verbatim::softnic
