// Which software NIC serves an address, and under which GID. Threads: any.
#pragma once

#include <array>
#include <cstdint>

#include "endpoint.hpp"

namespace verbatim::rdmacm {

struct DeviceGid {
    std::array<std::uint8_t, 16> bytes{};
    std::uint8_t index = 0;  // in the device's table
};

// Every address of this host belongs to the first device, but for 127.0.0.2 and following, which
// belong to the second device and following where there are such.
int device_of(const Endpoint& endpoint) noexcept;

// The entry of the device's GID table for an address, of RoCE v2; where it has none, the last one
// of its kind in the table.
DeviceGid gid_of(int device, const Endpoint& endpoint) noexcept;

}  // namespace verbatim::rdmacm
