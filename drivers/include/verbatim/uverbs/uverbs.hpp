// The software NIC as a device of rdma-core. A program that links this library (or preloads it) and
// then uses libibverbs finds one device, mlx5_0. libmlx5 makes and fills its queues as those of a
// ConnectX, and the software NIC executes them. Peers are queue pairs of the same user on the same
// host, in this process or others. Threads: any.
#pragma once

#include <cstdint>

namespace verbatim::uverbs {

// The directory that libibverbs reads instead of /sys, null where it could not be made (the log
// says why). Calling this also keeps linkers from dropping a library that nothing else names.
const char* sysfs_root() noexcept;

// Whether devices that are opened from now on are parked: their queues are made, and nothing
// executes them. For tests of what drivers write into queues, which play the device themselves.
void park_new_devices(bool parked) noexcept;

// What a device says that it can do, and does. For tests of drivers, against devices other than the
// ConnectX that this one is by default.
struct DeviceTraits {
    bool answers_firmware_queries = true;  // QUERY_HCA_CAP and QUERY_QP (mlx5dv_devx_general_cmd)
    bool atomics = true;
    bool masked_atomics = true;
    std::uint32_t big_endian_results = 4;  // sizes (4 | 8), as mlx5::QueuePairView has it
    bool data_in_order = true;
    std::uint8_t reads_at_once = 16;  // that a queue pair answers, and that it asks
};
// Of devices that are opened from now on.
void set_new_device_traits(const DeviceTraits& traits) noexcept;

}  // namespace verbatim::uverbs

// Calls of libibverbs by the calling thread, so far, in which the engine ran: polls that had found
// nothing, and posts of requests. By dlsym() for programs that are linked with nothing of this.
extern "C" void verbatim_uverbs_served(std::uint64_t* polls, std::uint64_t* posts) noexcept;
