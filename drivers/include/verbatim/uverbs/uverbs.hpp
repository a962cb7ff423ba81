// The software NIC as a device of rdma-core: a program that links this library (or preloads it) and
// then uses libibverbs finds one device, mlx5_0, whose queues libmlx5 makes and fills as those of a
// ConnectX, and which the software NIC executes. Peers are queue pairs of the same user on the same
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

}  // namespace verbatim::uverbs

// Calls of libibverbs by the calling thread, so far, in which the engine ran: polls that had found
// nothing, and posts of requests. By dlsym() for programs that are linked with nothing of this.
extern "C" void verbatim_uverbs_served(std::uint64_t* polls, std::uint64_t* posts) noexcept;
