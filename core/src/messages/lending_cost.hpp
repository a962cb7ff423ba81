// The length from which it costs less to lend bytes to a peer than to copy them through the ring.
#pragma once

#include <cstddef>

#include <verbatim/core/connection.hpp>

namespace verbatim {

// Measured on this connection: a grant, a read of the peer's memory, and copies of this machine.
// Drives the lane, some 50 us on one host. In a handler, and where something fails: a guess.
std::size_t lend_from(Connection& connection) noexcept;

}  // namespace verbatim
