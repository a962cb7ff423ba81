// TCP sockets that never block past a deadline.
#include "stream_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {
namespace {

constexpr int kStreamBacklog = 128;
constexpr std::array<std::uint8_t, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

void set_stream_option(int socket, int level, int option, int value) noexcept {
    setsockopt(socket, level, option, &value, sizeof value);
}

// A peer whose machine is gone is noticed after some seconds while nothing is sent, else after a
// minute: as long a process that is stopped may leave everything unread.
void set_stream_options(int socket) noexcept {
    constexpr int kIdleSeconds = 5, kProbeSeconds = 2, kProbes = 5, kUnacknowledgedMs = 60000;
    set_stream_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_stream_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_stream_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
    set_stream_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
    set_stream_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
    set_stream_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMs);
}

Descriptor open_stream_socket(const StreamPlace& place) {
    const int family = is_mapped(place) ? AF_INET : AF_INET6;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        throw Error(Errc::device_error, "stream socket", errno_text(errno),
                    "raise the limit of open files (ulimit -n)");
    return Descriptor(fd);
}

[[noreturn]] void fail_dial(const StreamPlace& place, int cause) {
    throw Error(Errc::peer_lost, fmt::format("stream to {}", text_of(place)), errno_text(cause),
                "let no firewall stand between the two sides; any TCP port may be used");
}

void wait_for(const Descriptor& socket, short events, Instant deadline) {
    pollfd entry{socket.get(), events, 0};
    const int ready = poll(&entry, 1, milliseconds_until(deadline));
    if (ready == 0) throw Error(Errc::timeout, "stream", "the peer did not answer in time");
}

}  // namespace

bool is_mapped(const StreamPlace& place) noexcept {
    return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), place.address.begin());
}

SocketName name_of(const StreamPlace& place) noexcept {
    SocketName name;
    if (is_mapped(place)) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_port = htons(place.port);
        std::memcpy(&in.sin_addr, &place.address[kMappedPrefix.size()], sizeof in.sin_addr);
        std::memcpy(&name.storage, &in, name.bytes = sizeof in);
    } else {
        sockaddr_in6 in{};
        in.sin6_family = AF_INET6;
        in.sin6_port = htons(place.port);
        std::memcpy(&in.sin6_addr, place.address.data(), sizeof in.sin6_addr);
        std::memcpy(&name.storage, &in, name.bytes = sizeof in);
    }
    return name;
}

// Of either family, which have it at one place.
std::uint16_t port_of(const SocketName& name) noexcept {
    sockaddr_in in{};
    std::memcpy(&in, &name.storage, sizeof in);
    return ntohs(in.sin_port);
}

bool is_same_place(const sockaddr_in6& left, const SocketName& right) noexcept {
    if (left.sin6_family != right.storage.ss_family) return false;
    if (left.sin6_family == AF_INET6) {
        sockaddr_in6 other{};
        std::memcpy(&other, &right.storage, sizeof other);
        return left.sin6_port == other.sin6_port &&
               std::memcmp(&left.sin6_addr, &other.sin6_addr, sizeof other.sin6_addr) == 0;
    }
    sockaddr_in one{}, other{};
    std::memcpy(&one, &left, sizeof one);
    std::memcpy(&other, &right.storage, sizeof other);
    return one.sin_port == other.sin_port && one.sin_addr.s_addr == other.sin_addr.s_addr;
}

std::string text_of(const StreamPlace& place) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (is_mapped(place)) {
        inet_ntop(AF_INET, &place.address[kMappedPrefix.size()], text.data(), text.size());
        return fmt::format("{}:{}", text.data(), place.port);
    }
    inet_ntop(AF_INET6, place.address.data(), text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), place.port);
}

std::array<std::uint8_t, 16> loopback_address() noexcept {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
}

Descriptor listen_at(StreamPlace& place) {
    Descriptor socket = open_stream_socket(place);
    SocketName name = name_of(place);
    if (bind(socket.get(), name.get(), name.bytes) != 0 ||
        listen(socket.get(), kStreamBacklog) != 0)
        throw Error(Errc::device_error, fmt::format("stream listener {}", text_of(place)),
                    errno_text(errno), "connect from an address that this machine has");
    getsockname(socket.get(), name.get(), &name.bytes);
    place.port = port_of(name);
    return socket;
}

Descriptor accept_stream(const Descriptor& listener, bool& full) noexcept {
    const int fd = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    full = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd >= 0) set_stream_options(fd);
    return fd < 0 ? Descriptor() : Descriptor(fd);
}

Descriptor dial(const StreamPlace& place, Instant deadline) {
    Descriptor socket = open_stream_socket(place);
    SocketName name = name_of(place);
    if (connect(socket.get(), name.get(), name.bytes) != 0) {
        if (errno != EINPROGRESS && errno != EINTR) fail_dial(place, errno);
        wait_for(socket, POLLOUT, deadline);
        int cause = 0;
        socklen_t bytes = sizeof cause;
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &cause, &bytes);
        if (cause != 0) fail_dial(place, cause);
    }
    set_stream_options(socket.get());
    return socket;
}

}  // namespace verbatim::softnic
