// What precedes a datagram in the memory that receives it: the network header that it came with, by
// which ibv_init_ah_from_wc() finds the way back. Threads: any.
#pragma once

#include "../../softnic/queue_pair/datagram_flows.hpp"
#include "../tree/identity.hpp"

namespace verbatim::uverbs {

// Of RoCE v2 over IPv4: 20 bytes of zeros and an IPv4 header from and to the device's own address,
// because every address of a host leads to each of its software NICs, and a peer's queue pair
// number to its process.
softnic::GlobalRoute way_back(const Identity& identity) noexcept;

}  // namespace verbatim::uverbs
