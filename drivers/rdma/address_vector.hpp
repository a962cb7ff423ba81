// Where a queue pair's packets go, and what two sides must agree on: pure, so that it can be tested
// for ports that are not at hand.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include <verbatim/driver/device.hpp>

#include "port.hpp"

namespace verbatim::rdma {

// With a global route over Ethernet, where the InfiniBand port requires one, and where the peer is
// in another InfiniBand subnet.
ibv_ah_attr address_vector(const Port& port, const GidEntry& own,
                           const QueuePairAddress& peer) noexcept;

// How many reads and atomics at once: that this side answers, by what its device can
// (ibv_device_attr::max_qp_rd_atom); and that it asks, by what its device can
// (max_qp_init_rd_atom) and what the peer answers.
std::uint8_t reads_answered(int device) noexcept;
std::uint8_t reads_asked(int device, const QueuePairAddress& peer) noexcept;

}  // namespace verbatim::rdma
