// TCP sockets with a deadline on every step. Control path. Threads: an object belongs to one at a
// time.
#pragma once

#include <netdb.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <verbatim/core/connection.hpp>
#include <verbatim/driver/descriptor.hpp>

namespace verbatim {

// "host:port" taken apart; "[::1]:7471" for IPv6 addresses.
struct HostPort {
    std::string host, port;
    // Throws Error(invalid_argument) that says what the form is.
    static HostPort parse(std::string_view text);
    std::string text() const;
};

namespace tcp {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
// May wait for a name server. Throws Error(invalid_argument): unknown host.
AddressList resolve(const HostPort& where, int flags);
// Without waiting. Empty: the host is a name.
AddressList numeric_addresses(const HostPort& where);
// Small frames leave at once. Children that are executed do not have the socket.
void tune(const Descriptor& socket) noexcept;
// A peer machine that vanishes is noticed after four times this. 0: not by the kernel. Sockets of
// Unix need none.
void keep_alive(const Descriptor& socket, std::chrono::seconds silence) noexcept;
// Throws Error: permission_denied (an address beyond loopback while that is not allowed),
// invalid_argument (unknown host).
AddressList addresses_to_listen(const HostPort& at, bool loopback_only);
// Throws Error: the same, invalid_argument, device_error (port in use).
Descriptor listen(const HostPort& at, bool loopback_only);
// Of IPv4 or IPv6: other machines can reach it; this machine alone.
bool is_reachable(const Descriptor& listener) noexcept;
bool is_loopback(const sockaddr* address) noexcept;
// Throws Error(invalid_argument) unless that is a connected stream socket, of TCP or Unix.
void check_connected_stream(int file);
// Nothing if nobody waits. Throws Error(out_of_memory) if the process may open no more descriptors.
Descriptor accept(const Descriptor& listener);

std::uint16_t local_port(const Descriptor& socket);
// Of a connection: by which address the peer reaches this side. IPv6, or IPv4-mapped.
std::array<std::uint8_t, 16> local_address(const Descriptor& socket);
// "127.0.0.1:40312", "[::1]:40312", "unix:/path (process 7)".
std::string peer_name(const Descriptor& socket);
// Of a listener: "127.0.0.1:7471", "unix:/path".
std::string local_name(const Descriptor& socket);

// What one attempt to read without waiting found.
enum class ReadResult { bytes, nothing, closed };
struct Read {
    ReadResult result;
    std::size_t count = 0;
};
Read read_some(const Descriptor& socket, std::span<std::byte> into) noexcept;
// Throws Error about `object`: timeout, peer_lost.
void write_all(const Descriptor& socket, std::span<const std::byte> bytes, Deadline deadline,
               const std::string& object);

}  // namespace tcp
}  // namespace verbatim
