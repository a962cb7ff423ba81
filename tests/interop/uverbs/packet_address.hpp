// Tests of devices whose queue pairs send RoCE packets: each process has an address of its own.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace verbatim::interop {

constexpr std::uint8_t kOwnGid = 3;  // the address
constexpr std::uint16_t kRocePort = 4791;
constexpr const char* kAddressVariable = "VERBATIM_SOFTNIC_ADDRESS";

// Of the loopback, where no other process of a test is.
inline std::string address_of(pid_t process, int last) {
    return "127." + std::to_string(process >> 8 & 0xff) + "." + std::to_string(process & 0xff) +
           "." + std::to_string(last + (process >> 16 & 0x3f));
}

inline ibv_gid gid_of(const std::string& address) {
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    EXPECT_EQ(inet_pton(AF_INET, address.c_str(), &gid.raw[12]), 1);
    return gid;
}

// Runs the program's tests in a child at an address, because the library has read its environment
// before main() begins; an empty one: of its own. Returns their exit status.
inline int run_at_address(char** arguments, const std::string& address = {}) {
    const pid_t child = fork();
    if (child == 0) {
        const std::string own = address.empty() ? address_of(getpid(), 1) : address;
        setenv("VERBATIM_SOFTNIC_PORT", "udp", 1);
        setenv(kAddressVariable, own.c_str(), 1);
        setenv("MLX5_DEBUG_FILE", "/dev/null", 1);  // libmlx5 prints each error completion
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace verbatim::interop
