// TCP sockets with a deadline on every step. Control path. Threads: an object belongs to one at a
// time.
#pragma once

#include <array>
#include <cstdint>
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
};

namespace tcp {

// Tries each address of the name. Throws Error: connection_refused (with what to check), timeout,
// protocol_error (taken and hung up), invalid_argument (unknown host).
Descriptor connect(const HostPort& to, Deadline deadline);
// Throws Error: permission_denied (an address beyond loopback while that is not allowed),
// invalid_argument, device_error (port in use).
Descriptor listen(const HostPort& at, bool loopback_only);
// Nothing if nobody waits. Throws Error(out_of_memory) if the process may open no more descriptors.
Descriptor accept(const Descriptor& listener);

std::uint16_t local_port(const Descriptor& socket);
// Of a connection: by which address the peer reaches this side. IPv6, or IPv4-mapped.
std::array<std::uint8_t, 16> local_address(const Descriptor& socket);
std::string peer_name(const Descriptor& socket);  // "127.0.0.1:40312", "[::1]:40312"

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
// True once there is something to read (or the end of it), false at the deadline.
bool wait_readable(const Descriptor& socket, Deadline deadline) noexcept;

}  // namespace tcp
}  // namespace verbatim
