// The software NIC as a device of rdma-core: a program that links this library (or preloads it) and
// then uses libibverbs finds one device, mlx5_0, whose queues libmlx5 makes and fills as those of a
// ConnectX. Control only so far: nothing executes the queues. Threads: any.
#pragma once

namespace verbatim::uverbs {

// The directory that libibverbs reads instead of /sys, null where it could not be made (the log
// says why). Calling this also keeps linkers from dropping a library that nothing else names.
const char* sysfs_root() noexcept;

}  // namespace verbatim::uverbs
