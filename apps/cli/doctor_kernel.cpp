// The kernel: what other processes' memory, doorbell traps and polling threads need.
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "doctor_checks.hpp"
#include "doctor_files.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;

Finding version() {
    utsname facts{};
    uname(&facts);
    int major = 0, minor = 0;
    std::sscanf(facts.release, "%d.%d", &major, &minor);
    const bool recent = major > 5 || (major == 5 && minor >= 19);
    return {"kernel",
            recent ? State::ok : State::limited,
            Breaks::nothing,
            facts.release,
            "doorbells are trapped from Linux 5.19 on; before, an engine thread naps",
            "sudo apt-get install linux-image-amd64"};
}

// Traps of doorbells, for programs that write to queues past libibverbs.
Finding faults_by_users() {
    const long file = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    const int reason = errno;
    if (file >= 0) close(static_cast<int>(file));
    return {
        "userfaultfd",
        file >= 0 ? State::ok : State::limited,
        Breaks::nothing,
        file >= 0 ? "works without privileges" : std::strerror(reason),
        "programs that ring doorbells past libibverbs wait for naps, and idle ones take CPU time",
        "docker run --security-opt seccomp=unconfined ..., or a kernel with CONFIG_USERFAULTFD"};
}

Finding barriers() {
    const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    const bool works = commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
    return {"membarrier",
            works ? State::ok : State::limited,
            Breaks::nothing,
            works ? "works" : "not allowed",
            "without it each chunk that is copied costs a fence more",
            "docker run --security-opt seccomp=unconfined ..."};
}

// Reads a word of a child, as one end of a connection reads the other's memory.
bool may_attach() {
    static volatile int word = 1;
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    if (child < 0) return false;
    int copy = 0;
    const iovec here{&copy, sizeof copy}, there{const_cast<int*>(&word), sizeof word};
    const bool read = process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof copy;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return read && copy == 1;
}

// Yama lets processes attach to their children only, from 1 on.
Finding attaching(const fs::path& root) {
    const auto scope = number_of(root / "proc/sys/kernel/yama/ptrace_scope");
    const bool allowed = scope.value_or(0) == 0 && may_attach();
    return {"ptrace",
            allowed ? State::ok : State::limited,
            Breaks::nothing,
            scope ? fmt::format("kernel.yama.ptrace_scope is {}", *scope)
                  : std::string(allowed ? "Yama is absent" : "attaching is not allowed"),
            "memory outside arenas is reached in one copy; without the right it crosses a ring in "
            "pieces",
            scope.value_or(0) != 0 ? "sudo sysctl -w kernel.yama.ptrace_scope=0"
                                   : "docker run --cap-add SYS_PTRACE ..."};
}

Finding cores() {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return {"cores",
            count >= 2 ? State::ok : State::limited,
            Breaks::nothing,
            fmt::format("{} online", count),
            "both ends poll; on one core each waits for the other's time slice",
            "docker run --cpus=2 ..., or give the machine a second core"};
}

// Two cores, if two are left for the rest of the machine.
std::string advice_to_isolate() {
    const long last = sysconf(_SC_NPROCESSORS_CONF) - 1;
    if (last < 3) return "none on fewer than 4 cores: give the machine more, and isolate two";
    return fmt::format(
        "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&isolcpus={0},{1} nohz_full={0},{1} /' "
        "/etc/default/grub && sudo update-grub && sudo reboot",
        last - 1, last);
}

Finding isolation(const fs::path& root) {
    const std::string isolated = line_of(root / "sys/devices/system/cpu/isolated");
    return {"isolation",
            isolated.empty() ? State::limited : State::ok,
            Breaks::nothing,
            isolated.empty() ? "no core is isolated" : "cores " + isolated,
            "a polling thread that shares its core has latencies of milliseconds now and then",
            advice_to_isolate()};
}

}  // namespace

std::vector<Finding> look_at_kernel(const fs::path& root) {
    return {version(), faults_by_users(), barriers(), attaching(root), cores(), isolation(root)};
}

}  // namespace cli
