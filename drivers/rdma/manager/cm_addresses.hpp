// Addresses of the connection manager's identifiers, as texts and GIDs. Threads: any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

namespace verbatim::rdma {

// "10.0.0.2:7471", "[::1]:7471".
std::string cm_text(const sockaddr& address);
// IPv6, or IPv4-mapped.
std::array<std::uint8_t, 16> cm_bytes(const sockaddr& address) noexcept;

}  // namespace verbatim::rdma
