// Errors of real devices, put together from plain facts so that they can be tested without a
// device.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <verbatim/driver/error.hpp>

namespace verbatim::rdma {

// A device that was looked at and why it cannot be used ("port 1 is down").
struct Rejected {
    std::string device;
    std::string reason;
};

struct Wanted {
    std::string name;  // empty: any
    int port = 1;
    bool mlx5_queues = true;
};

// `list_errno`: of ibv_get_device_list, 0 if it worked.
Error no_device_error(const Wanted& wanted, const std::vector<Rejected>& rejected, int list_errno);

struct MemoryLimits {
    std::uint64_t soft_bytes = 0;  // RLIMIT_MEMLOCK; UINT64_MAX: unlimited
    uid_t user = 0;
};
MemoryLimits current_memory_limits() noexcept;

// Why ibv_reg_mr failed with `cause` (an errno), and what to do.
Error registration_error(std::size_t bytes, int cause, const MemoryLimits& limits);

// Any other failed call.
Error call_error(const std::string& object, const char* call, int cause);

}  // namespace verbatim::rdma
