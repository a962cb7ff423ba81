// Layer requests are the posted requests of a connection by number, for Verbatim's own layers. What
// a layer has sent has landed once the last request that carries it has. Threads: the lane's.
#pragma once

#include <cstdint>

#include <verbatim/core/connection.hpp>

namespace verbatim {

struct LayerRequests {
    // The last one, if it and those before carry all that was accepted; 0: some of that waits.
    static std::uint64_t last(Connection& connection) noexcept;
    // The last one of which it is known that memory of the peer holds its bytes.
    static std::uint64_t landed(Connection& connection) noexcept;
    // Asks for news. Else a request without a completion is known to have landed by a later one.
    static void ask(Connection& connection) noexcept;
};

}  // namespace verbatim
