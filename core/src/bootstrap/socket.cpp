// Name resolution, connecting, listening, reading and writing, without ever blocking past a
// deadline.
#include "socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/errno_text.hpp>

#include "hello.hpp"

namespace verbatim {
namespace {

constexpr int kMissedProbes = 3;

void set_option(int socket, int level, int name, int value) noexcept {
    setsockopt(socket, level, name, &value,
               sizeof value);  // a refused option costs speed, not function
}

[[noreturn]] void cannot_listen(const HostPort& at, int error) {
    throw Error(error == EACCES ? Errc::permission_denied : Errc::device_error,
                "listener " + at.text(), errno_text(error),
                error == EADDRINUSE
                    ? "another program listens there: choose another port, or 0 for any free one"
                    : "choose an address of this machine and a port above 1023");
}

// "unix:" where it has no name.
std::string unix_name_of(const sockaddr_storage& address, socklen_t length) {
    sockaddr_un un{};
    std::memcpy(&un, &address, std::min<std::size_t>(length, sizeof un));
    const std::size_t bytes =
        length > offsetof(sockaddr_un, sun_path) ? length - offsetof(sockaddr_un, sun_path) : 0;
    if (bytes != 0 && un.sun_path[0] == '\0')
        return fmt::format(
            "unix:@{}",
            printable(std::as_bytes(std::span(un.sun_path + 1, bytes - 1)), sizeof un.sun_path));
    return fmt::format("unix:{}", std::string_view(un.sun_path, strnlen(un.sun_path, bytes)));
}

std::string name_of(const sockaddr_storage& address, socklen_t length) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (address.ss_family == AF_INET) {
        sockaddr_in in{};
        std::memcpy(&in, &address, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
        return fmt::format("{}:{}", text.data(), ntohs(in.sin_port));
    }
    if (address.ss_family == AF_UNIX) return unix_name_of(address, length);
    sockaddr_in6 in6{};
    std::memcpy(&in6, &address, sizeof in6);
    inet_ntop(AF_INET6, &in6.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(in6.sin6_port));
}

}  // namespace

HostPort HostPort::parse(std::string_view text) {
    const auto refuse = [&](const char* what) {
        throw Error(Errc::invalid_argument, fmt::format("address \"{}\"", text), what,
                    "write host:port, for example localhost:7471, 10.0.0.2:7471 or [::1]:7471, or "
                    "unix:/path");
    };
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos) refuse("it has no port");
    std::string_view host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']'))
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string_view::npos)
        refuse("an IPv6 address needs brackets");
    if (host.empty()) refuse("it has no host");
    unsigned number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc{} || end != port.data() + port.size() || number > 65535)
        refuse("the port is not a number from 0 to 65535");
    return {std::string(host), std::string(port)};
}

std::string HostPort::text() const {
    const bool address6 = host.find(':') != std::string::npos;
    return address6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

namespace tcp {
namespace {

// 0, or the resolver's code and no addresses.
int look_up(const HostPort& where, int flags, AddressList& list) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    const int error = getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found);
    if (error == 0) list.reset(found);
    return error;
}

}  // namespace

AddressList resolve(const HostPort& where, int flags) {
    AddressList list{nullptr, &freeaddrinfo};
    if (const int error = look_up(where, flags, list); error != 0)
        throw Error(Errc::invalid_argument, where.text(),
                    fmt::format("the host name cannot be resolved ({})", gai_strerror(error)),
                    "check the name, or use an address");
    return list;
}

AddressList numeric_addresses(const HostPort& where) {
    AddressList list{nullptr, &freeaddrinfo};
    (void)look_up(where, AI_NUMERICHOST, list);
    return list;
}

void tune(const Descriptor& socket) noexcept {
    fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
    set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
}

void keep_alive(const Descriptor& socket, std::chrono::seconds silence) noexcept {
    const int seconds = static_cast<int>(silence.count());
    set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE, seconds != 0);
    if (seconds == 0) return;
    set_option(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    set_option(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, seconds);
    set_option(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, kMissedProbes);
    // Of frames that nobody acknowledges, which are not probed for.
    set_option(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000 * (1 + kMissedProbes));
}

bool is_loopback(const sockaddr* address) noexcept {
    if (address->sa_family == AF_INET) {
        sockaddr_in in{};
        std::memcpy(&in, address, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    sockaddr_in6 in6{};
    std::memcpy(&in6, address, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) != 0;
}

AddressList addresses_to_listen(const HostPort& at, bool loopback_only) {
    AddressList addresses = resolve(at, AI_PASSIVE);
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next)
        if (loopback_only && !is_loopback(a->ai_addr))
            throw Error(Errc::permission_denied, "listener " + at.text(),
                        "other machines can reach that address",
                        "listen on localhost, or set loopback_only = false in [connect] if every "
                        "machine that can reach it is trusted");
    return addresses;
}

Descriptor listen(const HostPort& at, bool loopback_only) {
    const AddressList addresses = addresses_to_listen(at, loopback_only);
    int error = EADDRNOTAVAIL;
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
        Descriptor socket(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!socket) continue;
        set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
        if (bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 &&
            ::listen(socket.get(), SOMAXCONN) == 0)
            return socket;
        error = errno;
    }
    cannot_listen(at, error);
}

bool is_reachable(const Descriptor& listener) noexcept {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    return getsockname(listener.get(), name, &length) == 0 && !is_loopback(name);
}

Descriptor accept(const Descriptor& listener) {
    Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int error = socket ? 0 : errno;
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
        throw Error(Errc::out_of_memory, "listener " + local_name(listener),
                    fmt::format("callers cannot be taken ({})", errno_text(error)),
                    "close connections or files, or raise the limit of open files (ulimit -n)");
    if (socket) tune(socket);
    return socket;
}

std::uint16_t local_port(const Descriptor& socket) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
    if (address.ss_family == AF_UNIX) return 0;
    // Both other families have the port at the same place.
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof in);
    return ntohs(in.sin_port);
}

std::array<std::uint8_t, 16> local_address(const Descriptor& socket) {
    std::array<std::uint8_t, 16> bytes{};
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
        return bytes;
    if (address.ss_family == AF_INET) {
        sockaddr_in in{};
        std::memcpy(&in, &address, sizeof in);
        bytes[10] = bytes[11] = 0xff;
        std::memcpy(&bytes[12], &in.sin_addr, sizeof in.sin_addr);
    } else if (address.ss_family == AF_INET6) {
        sockaddr_in6 in{};
        std::memcpy(&in, &address, sizeof in);
        std::memcpy(bytes.data(), &in.sin6_addr, sizeof in.sin6_addr);
    }
    return bytes;
}

std::string peer_name(const Descriptor& socket) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
        return "a lost peer";
    if (address.ss_family != AF_UNIX) return name_of(address, length);
    // Callers have no name: that of the listener, and their process.
    ucred peer{};
    socklen_t bytes = sizeof peer;
    (void)getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    std::string name = name_of(address, length);
    if (name == "unix:") name = local_name(socket);
    if (name == "unix:") name = "a Unix socket";  // of socketpair()
    return fmt::format("{} (process {})", name, peer.pid);
}

void check_connected_stream(int file) {
    const auto option = [&](int name) {
        int value = -1;
        socklen_t bytes = sizeof value;
        return getsockopt(file, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
    };
    const auto refuse = [&](const char* cause) {
        throw Error(Errc::invalid_argument, fmt::format("descriptor {}", file), cause,
                    "hand in a connected stream socket, of TCP or Unix");
    };
    const int type = option(SO_TYPE), family = option(SO_DOMAIN);
    if (type < 0) refuse("it is no socket");
    if (type != SOCK_STREAM) refuse("it is no stream socket");
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
        refuse("it is a socket of another family");
    if (option(SO_ACCEPTCONN) == 1) refuse("it listens");
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getpeername(file, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        refuse("it is not connected");
}

std::string local_name(const Descriptor& socket) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
        return "a lost socket";
    return name_of(address, length);
}

Read read_some(const Descriptor& socket, std::span<std::byte> into) noexcept {
    while (true) {
        const ssize_t count = recv(socket.get(), into.data(), into.size(), MSG_DONTWAIT);
        if (count > 0) return {ReadResult::bytes, static_cast<std::size_t>(count)};
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {ReadResult::nothing};
        return {ReadResult::closed};  // the end, or a reset: the peer is gone either way
    }
}

void write_all(const Descriptor& socket, std::span<const std::byte> bytes, Deadline deadline,
               const std::string& object) {
    while (!bytes.empty()) {
        const ssize_t count =
            send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(count));
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            throw Error(Errc::peer_lost, object,
                        fmt::format("the peer closed ({})", errno_text(errno)),
                        "see what the peer's own messages say");
        pollfd entry{socket.get(), POLLOUT, 0};
        if (poll(&entry, 1, milliseconds_until(deadline.when)) == 0)
            throw Error(Errc::timeout, object, "the peer takes no bytes",
                        "see whether the peer is stopped");
    }
}

}  // namespace tcp
}  // namespace verbatim
