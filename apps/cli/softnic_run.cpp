// The devices' tree, the preloaded library, and the program between them.
#include "softnic_run.hpp"

#include <arpa/inet.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/uverbs/device_tree.hpp>

#include "softnic_config.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;
using verbatim::Errc;
using verbatim::Error;
using verbatim::uverbs::DeviceTree;

constexpr const char* kLibrary = "libverbatim_uverbs.so";
constexpr const char* kLibraryVariable = "VERBATIM_SOFTNIC_LIBRARY";

// Named by the environment, beside the program in a build directory, or where it is installed.
std::string find_library() {
    if (const char* const given = std::getenv(kLibraryVariable)) return given;
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const fs::path& candidate :
         {program / "../../drivers" / kLibrary, fs::path(VERBATIM_LIBRARY_DIRECTORY) / kLibrary})
        if (fs::exists(candidate, ignored)) return fs::canonical(candidate);
    throw Error(Errc::config_error, "softnic run", fmt::format("{} is not found", kLibrary),
                fmt::format("install Verbatim, or let {} name it", kLibraryVariable));
}

void set_environment(const DeviceTree& tree, const std::string& library) {
    const char* const before = std::getenv("LD_PRELOAD");
    const bool others = before != nullptr && *before != '\0';
    setenv("LD_PRELOAD", (others ? library + ":" + before : library).c_str(), 1);
    setenv(DeviceTree::kVariable, tree.root().c_str(), 1);
}

std::string is_ipv6(const std::string& text) {
    in6_addr address;
    return inet_pton(AF_INET6, text.c_str(), &address) == 1 ? "" : text + " is no IPv6 address";
}

std::string is_mac(const std::string& text) {
    std::array<unsigned char, 6> bytes;
    int end = -1;
    const int found = std::sscanf(text.c_str(), "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &bytes[0],
                                  &bytes[1], &bytes[2], &bytes[3], &bytes[4], &bytes[5], &end);
    const bool whole = found == 6 && static_cast<std::size_t>(end) == text.size();
    return whole ? "" : text + " is no MAC address, such as 02:00:00:00:00:01";
}

std::string is_port(const std::string& text) {
    return DeviceTree::allows_port(text)
               ? ""
               : fmt::format("{} is not {}", text, DeviceTree::kAllowedPorts);
}

// Signals that end programs, and the one that tells of a child's end.
sigset_t watched_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) sigaddset(&set, signal);
    return set;
}

pid_t start(const std::vector<std::string>& command) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = 0;
    const int error =
        posix_spawnp(&child, arguments[0], nullptr, &attributes, arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    if (error != 0)
        throw Error(Errc::invalid_argument, command[0], std::strerror(error),
                    "is it installed and in PATH?");
    return child;
}

// Passes on what asks this process to end; what a terminal sends, the child has had itself.
int wait_for(pid_t child) {
    const sigset_t watched = watched_signals();
    for (;;) {
        siginfo_t signal{};
        if (sigwaitinfo(&watched, &signal) < 0) continue;
        if (signal.si_signo != SIGCHLD) {
            if (signal.si_code != SI_KERNEL) kill(child, signal.si_signo);
            continue;
        }
        int status = 0;
        if (waitpid(child, &status, WNOHANG) != child) continue;
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    }
}

}  // namespace

void SoftnicRun::add_to(CLI::App& softnic) {
    CLI::App& run = *softnic.add_subcommand(
        "run", "runs a program of rdma-core, unmodified, on devices in software");
    run.add_option("--devices", devices_, "how many devices it finds: mlx5_0 and following")
        ->check(CLI::Range(1, DeviceTree::kMaxDevices))
        ->default_str("1");
    run.add_option("--config", config_,
                   "devices, their settings and faults; see configs/softnic.toml");
    run.add_flag("--share-memory", shares_memory_,
                 "peers map registered memory, where that can be: faster, and the program may "
                 "notice it (docs/softnic.md)");
    run.add_option(
           "--port", wire_.port,
           "the devices' way to their peers: shm, or to any RoCE device udp, or dpdk: and a "
           "device of DPDK, which the first device has (docs/dpdk-port.md)")
        ->check(CLI::Validator(is_port, "shm|udp|dpdk:DEVICE"));
    run.add_option("--address", wire_.address,
                   "of this machine, for the packets of port udp; by default the first that others "
                   "can reach. Of DPDK's device; needed there")
        ->check(CLI::ValidIPV4 | CLI::Validator(is_ipv6, "IPV6"));
    run.add_option("--peer-mac", wire_.peer_mac,
                   "MAC address that all of DPDK's frames go to: a router's, or the only peer's")
        ->check(CLI::Validator(is_mac, "MAC"));
    run.add_option("--frame-mtu", wire_.frame_mtu,
                   "bytes of the longest IP packet of DPDK's device; by default as it has them")
        ->check(CLI::Range(576, 9000));
    run.add_option("--capture", wire_.capture,
                   "file to which the packets are appended, as pcapng; of shm made up");
    run.add_option("command", command_, "the program and its arguments, behind --")->required();
    run.positionals_at_end();
}

// Programs say no more than that they cannot open their device.
void SoftnicRun::check_wire() const {
    const char* const before = std::getenv(DeviceTree::kAddressVariable);
    const std::string address = !wire_.address.empty() ? wire_.address
                                : before != nullptr    ? before
                                                       : "";
    if (wire_.port.starts_with(DeviceTree::kDpdkPrefix) && address.empty())
        throw Error(Errc::invalid_argument, "softnic run", "DPDK's device has no IP address",
                    "give it one of its network, with --address");
    in6_addr bytes;
    if (inet_pton(AF_INET6, address.c_str(), &bytes) == 1 && IN6_IS_ADDR_LINKLOCAL(&bytes))
        throw Error(Errc::invalid_argument, "softnic run",
                    fmt::format("--address {} is of the link alone: no packets go there", address),
                    "give an address of a network, or an IPv4 address");
}

void SoftnicRun::set_wire() const {
    const auto set = [](const char* variable, const std::string& value) {
        if (!value.empty()) setenv(variable, value.c_str(), 1);
    };
    set(DeviceTree::kPortVariable, wire_.port);
    set(DeviceTree::kAddressVariable, wire_.address);
    set(DeviceTree::kPeerMacVariable, wire_.peer_mac);
    set(DeviceTree::kFrameMtuVariable, wire_.frame_mtu);
    set(DeviceTree::kCaptureVariable, wire_.capture);
}

int SoftnicRun::operator()() const {
    check_wire();
    const std::string library = find_library();
    const SoftnicConfig config =
        config_.empty() ? SoftnicConfig{} : SoftnicConfig::from_file(config_);
    // Before there is anything to clean up: from here on signals come to wait_for() only.
    const sigset_t watched = watched_signals();
    sigprocmask(SIG_BLOCK, &watched, nullptr);
    for (const auto& [variable, value] : config.environment)
        setenv(variable.c_str(), value.c_str(), 1);
    if (shares_memory_) setenv(DeviceTree::kShareVariable, "1", 1);
    set_wire();
    const DeviceTree tree(devices_.value_or(config.devices.value_or(1)));
    set_environment(tree, library);
    return wait_for(start(command_));
}

}  // namespace cli
