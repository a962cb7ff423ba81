// Texts of the errors of real devices.
#include "messages.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace verbatim::rdma {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::string limit_text(std::uint64_t bytes) {
    if (bytes == kUnlimited) return "unlimited";
    return fmt::format("{} bytes", bytes);
}

}  // namespace

Error no_device_error(const Wanted& wanted, const std::vector<Rejected>& rejected, int list_errno) {
    std::string cause =
        wanted.name.empty()
            ? fmt::format("looked for a device with {}port {} active; ",
                          wanted.mlx5_queues ? "mlx5 queues and " : "", wanted.port)
            : fmt::format("looked for {} with port {} active; ", wanted.name, wanted.port);
    if (list_errno != 0) {
        cause += fmt::format("the kernel offers no RDMA devices ({})", std::strerror(list_errno));
    } else if (rejected.empty()) {
        cause += "found no RDMA device at all";
    } else {
        cause += "found ";
        for (std::size_t i = 0; i < rejected.size(); ++i)
            cause += fmt::format("{}{} ({})", i == 0 ? "" : ", ", rejected[i].device,
                                 rejected[i].reason);
    }
    return {Errc::no_device, "RDMA device", cause,
            "set device.kind = \"softnic\" to use the software NIC; or install rdma-core and "
            "ibverbs-providers, "
            "load mlx5_ib (modprobe mlx5_ib) and bring the port up (ip link set <interface> up)"};
}

MemoryLimits current_memory_limits() noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return {kUnlimited, geteuid()};
    return {limit.rlim_cur, geteuid()};
}

Error registration_error(std::size_t bytes, int cause, const MemoryLimits& limits) {
    const std::string object = fmt::format("memory region of {} bytes", bytes);
    if (cause == ENOMEM && limits.soft_bytes < kUnlimited)
        return {Errc::out_of_memory, object,
                fmt::format("the kernel refuses to pin it (RLIMIT_MEMLOCK is {} for uid {})",
                            limit_text(limits.soft_bytes), limits.user),
                "run `ulimit -l unlimited` before the program, or put `* - memlock unlimited` into "
                "/etc/security/limits.conf and log in again"};
    if (cause == ENOMEM)
        return {Errc::out_of_memory, object,
                "the kernel or the device has no room for it (RLIMIT_MEMLOCK is unlimited)",
                "use smaller arenas, or 2 MiB pages (arena.pages = \"2M\")"};
    if (cause == EFAULT)
        return {Errc::invalid_argument, object, "parts of it are not mapped, or not writable"};
    return call_error(object, "ibv_reg_mr", cause);
}

Error call_error(const std::string& object, const char* call, int cause) {
    const bool forbidden = cause == EPERM || cause == EACCES;
    return {forbidden ? Errc::permission_denied : Errc::device_error, object,
            fmt::format("{} failed: {}", call, std::strerror(cause)),
            forbidden ? "give this user read and write access to /dev/infiniband/uverbs*"
                      : "see dmesg; try `ibv_devinfo -v`"};
}

}  // namespace verbatim::rdma
