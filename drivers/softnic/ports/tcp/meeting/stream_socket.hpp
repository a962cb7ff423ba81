// Sockets of streams: listening, dialling, options. Addresses are 16 bytes, IPv6 or IPv4-mapped.
// Control path; threads: any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "../../../host/descriptor.hpp"
#include "../../../host/local_socket.hpp"

namespace verbatim::softnic {

struct StreamPlace {
    std::array<std::uint8_t, 16> address{};
    std::uint16_t port = 0;

    auto operator<=>(const StreamPlace&) const = default;
};
bool is_mapped(const StreamPlace& place) noexcept;  // IPv4
// The same as the kernel has it.
struct SocketName {
    sockaddr_storage storage{};
    socklen_t bytes = 0;

    sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};
SocketName name_of(const StreamPlace& place) noexcept;
std::uint16_t port_of(const SocketName& name) noexcept;
// Address and port of both are the same; `left` is of either family.
bool is_same_place(const sockaddr_in6& left, const SocketName& right) noexcept;
// "127.0.0.1:7000", "[::1]:7000".
std::string text_of(const StreamPlace& place);
// Of this machine, for peers on it.
std::array<std::uint8_t, 16> loopback_address() noexcept;

// Listens at the address; the kernel chooses the port, which is stored. Throws Error(device_error).
Descriptor listen_at(StreamPlace& place);
// A connection that a listener took; invalid where none waits. `full`: the process may have no more
// descriptors.
Descriptor accept_stream(const Descriptor& listener, bool& full) noexcept;
// Throws Error: timeout, peer_lost.
Descriptor dial(const StreamPlace& place, Instant deadline);

}  // namespace verbatim::softnic
