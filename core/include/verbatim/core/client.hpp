// A client identity tells a listener which of its callers are one client that dials again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbatim {

class Connection;

struct ClientIdentity {
    std::array<std::byte, 16> id{};  // random, for the life of a Reconnecting
    std::uint64_t generation = 0;    // from 1; each attempt to connect has the next one
    bool operator==(const ClientIdentity&) const = default;
};

// At an accepting side: what the peer's hello said of it. Nothing: the peer does not reconnect, or
// this side called. Threads: the connection's lane. docs/reconnect.md.
std::optional<ClientIdentity> client_of(Connection& connection) noexcept;

}  // namespace verbatim
