// What a device says of atomics that verbs has no word for.
#pragma once

#include <cstdint>

struct ibv_context;

namespace verbatim::rdma {

struct AtomicSupport {
    bool plain = false;                    // compare-and-swap and fetch-and-add of 8 bytes
    bool masked = false;                   // and those under masks, of 4 and 8 bytes
    std::uint32_t big_endian_results = 4;  // as mlx5::QueuePairView has it
};

// Of a device with mlx5 queues: what its firmware says, which knows more than verbs; where it
// cannot be asked (the kernel keeps DEVX from this process), what verbs says: `verbs_atomics`,
// which the kernel grants only where results of 8 bytes arrive in host byte order.
AtomicSupport query_atomics(ibv_context* context, bool verbs_atomics) noexcept;

}  // namespace verbatim::rdma
