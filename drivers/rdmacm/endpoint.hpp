// An address and port of the connection manager: what sockaddr_in and sockaddr_in6 say, in one
// layout that also travels between processes. Threads: any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace verbatim::rdmacm {

struct Endpoint {
    std::uint16_t family = AF_UNSPEC;
    std::uint16_t port = 0;  // in host order
    std::uint32_t scope = 0;
    std::array<std::uint8_t, 16> address{};  // AF_INET: the first four

    bool is_set() const noexcept { return family != AF_UNSPEC; }
    // The wildcard.
    bool is_any() const noexcept { return address == std::array<std::uint8_t, 16>{}; }
    bool is_loopback() const noexcept;
    bool same_address(const Endpoint& other) const noexcept {
        return family == other.family && address == other.address;
    }
    // The address as hexadecimal digits.
    std::string digits() const;
};

// Nothing: a family that there is none of here. Zeros (AF_UNSPEC) are an endpoint that is not set.
std::optional<Endpoint> read_endpoint(const void* socket_address) noexcept;
// Zeros for an endpoint that is not set. Returns the bytes used of `room`, which takes a
// sockaddr_in6 at least.
std::size_t write_endpoint(const Endpoint& endpoint, void* room) noexcept;

Endpoint any_endpoint(std::uint16_t family) noexcept;
Endpoint loopback_endpoint(std::uint16_t family) noexcept;

// Whether this host has the address; the wildcard is none.
bool is_local(const Endpoint& endpoint);
// The address that this host would use towards one of its own.
Endpoint source_towards(const Endpoint& own) noexcept;

}  // namespace verbatim::rdmacm
