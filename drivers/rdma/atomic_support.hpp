// What a device says of atomics that verbs has no word for.
#pragma once

struct ibv_context;

namespace verbatim::rdma {

// Masked compare-and-swap and fetch-and-add of 4 and 8 bytes. False also where the device cannot be
// asked (the kernel keeps DEVX from this process).
bool has_masked_atomics(ibv_context* context) noexcept;

}  // namespace verbatim::rdma
