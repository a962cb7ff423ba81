#include "machine.hpp"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <rdma/fabric.h>
#include <sched.h>
#include <sys/utsname.h>
#include <ucp/api/ucp.h>
#include <zmq.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "../support/cores.hpp"

namespace verbatim::bench {
namespace {

// The value of the first line of a kernel's file that begins with the name.
std::string value_in(const char* path, std::string_view name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (line.starts_with(name) && colon != std::string::npos)
            return line.substr(line.find_first_not_of(" \t", colon + 1));
    }
    return "unknown";
}

std::string kernel() {
    utsname names{};
    uname(&names);
    return fmt::format("{} {}", names.sysname, names.release);
}

std::string load() {
    double averages[3] = {};
    getloadavg(averages, 3);
    return fmt::format("{:.2f} (1 min), {:.2f} (5 min)", averages[0], averages[1]);
}

std::string cores() {
    cpu_set_t usable;
    sched_getaffinity(0, sizeof usable, &usable);
    return fmt::format("{} usable of {} logical; the processes are pinned to cores 0 and 1",
                       CPU_COUNT(&usable), std::thread::hardware_concurrency());
}

std::string counter() {
    return fmt::format("{:.0f} ticks a microsecond, {} between two readings in a row",
                       ticks_per_microsecond(), ticks_between_readings());
}

std::string peers() {
    int major = 0, minor = 0, patch = 0;
    zmq_version(&major, &minor, &patch);
    return fmt::format("UCX {}, libfabric {}.{}, ZeroMQ {}.{}.{}, glibc {}",
                       ucp_get_version_string(), FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
                       major, minor, patch, gnu_get_libc_version());
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe_machine() {
    return {{"CPU", value_in("/proc/cpuinfo", "model name")},
            {"cores", cores()},
            {"huge pages", value_in("/proc/meminfo", "HugePages_Total")},
            {"kernel", kernel()},
            {"compiler", __VERSION__},
            {"counter", counter()},
            {"peers", peers()},
            {"load", load()}};
}

}  // namespace verbatim::bench
