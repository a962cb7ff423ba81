// Options, names and path MTUs of packet sockets.
#include "packet_socket.hpp"

#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "../packets/packet.hpp"
#include "congestion_marks.hpp"

namespace verbatim::softnic {
namespace {

void set_packet_option(int socket, int level, int option, int value) noexcept {
    setsockopt(socket, level, option, &value, sizeof value);
}

// No fragments; errors of the peer's kernel are told; what a window holds fits the buffers.
void set_packet_options(int socket, bool mapped) noexcept {
    constexpr int kBufferBytes = 1 << 20;
    set_packet_option(socket, SOL_SOCKET, SO_RCVBUF, kBufferBytes);
    set_packet_option(socket, SOL_SOCKET, SO_SNDBUF, kBufferBytes);
    enable_marks(socket, mapped);
    if (mapped) {
        set_packet_option(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
        set_packet_option(socket, IPPROTO_IP, IP_RECVERR, 1);
    } else {
        set_packet_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        set_packet_option(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
        set_packet_option(socket, IPPROTO_IPV6, IPV6_RECVERR, 1);
        // The ICRC is enough for some RoCE devices, which send no UDP checksum.
        set_packet_option(socket, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
    }
}

bool is_address_of(const ifaddrs& interface, const StreamPlace& place) noexcept {
    if (interface.ifa_addr == nullptr) return false;
    const SocketName name = name_of(place);
    if (interface.ifa_addr->sa_family != name.storage.ss_family) return false;
    if (is_mapped(place)) {
        sockaddr_in here{}, wanted{};
        std::memcpy(&here, interface.ifa_addr, sizeof here);
        std::memcpy(&wanted, &name.storage, sizeof wanted);
        return here.sin_addr.s_addr == wanted.sin_addr.s_addr;
    }
    sockaddr_in6 here{};
    std::memcpy(&here, interface.ifa_addr, sizeof here);
    return std::memcmp(&here.sin6_addr, place.address.data(), place.address.size()) == 0;
}

// 0: not known.
std::size_t interface_mtu(const char* name) noexcept {
    const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (ioctl(any.get(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu < 0) return 0;
    return static_cast<std::size_t>(request.ifr_mtu);
}

// Asked for with each queue pair: the list of all addresses takes its time.
bool is_loopback(const StreamPlace& place) noexcept {
    constexpr std::uint8_t kLoopbackNet = 127;
    return is_mapped(place) && place.address[12] == kLoopbackNet;
}

std::size_t mtu_of_address(const StreamPlace& place) noexcept {
    if (is_loopback(place)) return interface_mtu("lo");
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return 0;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* interface = list; interface != nullptr; interface = interface->ifa_next)
        if (is_address_of(*interface, place)) return interface_mtu(interface->ifa_name);
    return 0;
}

// Before other sockets are bound to its port, and while they are: both are of this user.
void share_port(int socket, bool shared) noexcept {
    set_packet_option(socket, SOL_SOCKET, SO_REUSEPORT, shared ? 1 : 0);
}

template <std::size_t Steps>
bool attach_filter(int socket, std::array<sock_filter, Steps> steps) noexcept {
    const sock_fprog filter{Steps, steps.data()};
    return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

bool drop_all(int socket) noexcept {
    return attach_filter(socket, std::array{sock_filter(BPF_STMT(BPF_RET | BPF_K, 0))});
}

// Of a raw socket: only packets to this UDP port, behind an IPv4 header of any length.
bool take_port_alone(int socket, std::uint16_t port) noexcept {
    constexpr std::uint32_t kWhole = 0xffffffff;
    return attach_filter(socket,
                         std::array{sock_filter(BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0)),
                                    sock_filter(BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2)),
                                    sock_filter(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1)),
                                    sock_filter(BPF_STMT(BPF_RET | BPF_K, kWhole)),
                                    sock_filter(BPF_STMT(BPF_RET | BPF_K, 0))});
}

// Empty: it cannot be made.
Descriptor open_sender(SocketName& own) noexcept {
    Descriptor result(socket(own.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!result) return {};
    set_packet_options(result.get(), true);
    share_port(result.get(), true);
    const bool made = drop_all(result.get()) && bind(result.get(), own.get(), own.bytes) == 0;
    share_port(result.get(), false);
    return made ? std::move(result) : Descriptor();
}

}  // namespace

Descriptor open_packet_socket(StreamPlace& place) {
    const bool mapped = is_mapped(place);
    Descriptor result(
        socket(mapped ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!result)
        throw Error(Errc::device_error, "packet socket", errno_text(errno),
                    "raise the limit of open files (ulimit -n)");
    set_packet_options(result.get(), mapped);
    SocketName name = name_of(place);
    if (bind(result.get(), name.get(), name.bytes) != 0) {
        const char* const remedy =
            errno == EADDRINUSE
                ? "let no other process of this machine have the port: one process for each "
                  "address, and not beside the kernel's rdma_rxe"
                : "connect from an address that this machine has";
        throw Error(Errc::device_error, fmt::format("packet socket {}", text_of(place)),
                    errno_text(errno), remedy);
    }
    getsockname(result.get(), name.get(), &name.bytes);
    place.port = port_of(name);
    return result;
}

// The filter before the address: nothing else comes meanwhile.
Descriptor open_raw_receiver(const Descriptor& socket, const StreamPlace& place) noexcept {
    if (!is_mapped(place)) return {};
    Descriptor raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
    if (!raw) return {};
    SocketName name = name_of({place.address, 0});
    constexpr int kBufferBytes = 1 << 20;
    set_packet_option(raw.get(), SOL_SOCKET, SO_RCVBUF, kBufferBytes);
    if (!take_port_alone(raw.get(), place.port) || bind(raw.get(), name.get(), name.bytes) != 0 ||
        !drop_all(socket.get()))
        return {};
    return raw;
}

// Connected first: so recent kernels give nothing of the peer's to the sender. On others a packet
// may be lost now.
bool connect_packet_socket(const Descriptor& socket, SocketName& peer,
                           Descriptor& sender) noexcept {
    SocketName own;
    own.bytes = sizeof own.storage;
    if (getsockname(socket.get(), own.get(), &own.bytes) != 0 ||
        connect(socket.get(), peer.get(), peer.bytes) != 0)
        return false;
    if (own.storage.ss_family != AF_INET) return true;
    share_port(socket.get(), true);
    sender = open_sender(own);
    share_port(socket.get(), false);
    if (sender) return true;
    sockaddr nobody{};
    nobody.sa_family = AF_UNSPEC;
    connect(socket.get(), &nobody, sizeof nobody);
    // It has lost its port, which the kernel had chosen.
    if (bind(socket.get(), own.get(), own.bytes) != 0)
        log::warn("packet socket: its port could not be bound again: {}", errno_text(errno));
    return false;
}

std::uint64_t dropped_datagrams(int socket) noexcept {
    std::array<std::uint32_t, SK_MEMINFO_VARS> told{};
    socklen_t bytes = sizeof told;
    return getsockopt(socket, SOL_SOCKET, SO_MEMINFO, told.data(), &bytes) == 0
               ? told[SK_MEMINFO_DROPS]
               : 0;
}

// The headers of a packet are shorter than the smallest MTU that IP allows to leave for them.
unsigned mtu_log2_at(const StreamPlace& place) noexcept {
    constexpr std::size_t kUnknown = 1280;
    return path_mtu_log2(std::max(mtu_of_address(place), kUnknown));
}

}  // namespace verbatim::softnic
