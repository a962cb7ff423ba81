// Two processes of a test, each with an end of one connection.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softnic_end.hpp"
#include "softnic_process.hpp"

namespace verbatim::softnic::test {

// Exchanges addresses and connects; false where the other process went.
inline bool meet(End& end, Wire& wire) {
    EndAddress peer;
    if (!wire.put(end.address()) || !wire.get(peer)) return false;
    end.connect(peer);
    return wire.signal() && wire.wait();
}

// A word that the other process writes.
inline std::uint64_t watch(const End& end, std::size_t offset) {
    return __atomic_load_n(reinterpret_cast<std::uint64_t*>(end.at(offset)), __ATOMIC_ACQUIRE);
}

}  // namespace verbatim::softnic::test
