// This library makes the software NIC a device of rdma-core. A program that links this library (or
// preloads it) and then uses libibverbs finds one device, mlx5_0. Its queues are made and filled by
// libmlx5 as those of a ConnectX, and executed by the software NIC. Peers are queue pairs of the
// same user on the same host, in this process or others. Threads: any.
#pragma once

#include <cstdint>

namespace verbatim::uverbs {

// The directory that libibverbs reads instead of /sys. Null where it could not be made; the log has
// the reason. A call also keeps linkers from dropping a library that nothing else names.
const char* sysfs_root() noexcept;

// Parks devices that are opened from now on, or not: their queues are made, and not executed. For
// tests of a driver's entries that play the device themselves.
void park_new_devices(bool parked) noexcept;

// The capabilities of a device. For tests of drivers, against devices other than the ConnectX that
// this one is by default.
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

// The number of the calling thread's calls of libibverbs so far in which the engine ran. They are
// polls that found nothing, and posts of requests. By dlsym() for programs that are linked with
// nothing of this.
extern "C" void verbatim_uverbs_served(std::uint64_t* polls, std::uint64_t* posts) noexcept;
