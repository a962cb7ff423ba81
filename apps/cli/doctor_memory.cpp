// Memory: huge pages, locked memory, memory files, descriptors.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "doctor_checks.hpp"
#include "doctor_files.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;

// An arena of 1 GiB.
constexpr std::int64_t kPagesWanted = 512;
constexpr rlim_t kDescriptorsWanted = 1024;

Finding huge_pages(const fs::path& root) {
    const fs::path pool = root / "sys/kernel/mm/hugepages/hugepages-2048kB";
    const auto free = number_of(pool / "free_hugepages"), all = number_of(pool / "nr_hugepages");
    Finding finding{"hugepages", State::ok, Breaks::nothing, {}, {}, {}};
    finding.found = free ? fmt::format("{} of {} pages of 2 MiB are free", *free, all.value_or(0))
                         : "the kernel has none of 2 MiB";
    finding.why = "arenas on 4 KiB pages miss the TLB, of the processor and of the card";
    if (free.value_or(0) < kPagesWanted) {
        finding.state = State::limited;
        finding.remedy = fmt::format("sudo sysctl -w vm.nr_hugepages={}",
                                     all.value_or(0) + kPagesWanted - free.value_or(0));
    }
    return finding;
}

Finding locked_memory() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
    return {"memlock",
            unlimited ? State::ok : State::limited,
            Breaks::nothing,
            unlimited ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur / 1024),
            "an RDMA device pins what is registered; the software NIC pins nothing",
            "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/verbatim.conf"};
}

Finding memory_files() {
    const int file = memfd_create("verbatim-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int reason = errno;
    if (file >= 0) close(file);
    return {"memory-files",
            file >= 0 ? State::ok : State::missing,
            Breaks::default_path,
            file >= 0 ? "memfd_create() works" : std::strerror(reason),
            "arenas and rings are memory files that two processes map",
            file >= 0 ? "" : "docker run --security-opt seccomp=unconfined ..."};
}

// Of other programs on the software NIC: UCX and perftest keep segments there.
Finding shared_memory(const fs::path& root) {
    constexpr std::uint64_t kWanted = std::uint64_t{64} << 20;
    struct statvfs facts {};
    const bool there = statvfs((root / "dev/shm").c_str(), &facts) == 0;
    const std::uint64_t free = there ? std::uint64_t{facts.f_bavail} * facts.f_frsize : 0;
    return {"dev-shm",
            free >= kWanted ? State::ok : State::limited,
            Breaks::nothing,
            there ? fmt::format("{} MiB are free", free >> 20) : "not mounted",
            "Verbatim needs none of it; UCX beside it does",
            "docker run --shm-size=1g ..., or: sudo mount -o remount,size=1g /dev/shm"};
}

Finding descriptors() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return {"descriptors",
            limit.rlim_cur >= kDescriptorsWanted ? State::ok : State::limited,
            Breaks::nothing,
            fmt::format("{} files", limit.rlim_cur),
            "a link to a process takes a few, a connection one",
            fmt::format("ulimit -n {}", std::max(limit.rlim_max, kDescriptorsWanted))};
}

}  // namespace

std::vector<Finding> look_at_memory(const fs::path& root) {
    return {huge_pages(root), locked_memory(), memory_files(), shared_memory(root), descriptors()};
}

}  // namespace cli
