// Running devices are those of the software NIC that programs of this user have open, with their
// reports. Each device answers at its own socket, so programs that have ended leave nothing behind.
// Programs in other network namespaces are not seen.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace verbatim::softnic {

struct RunningDevice {
    pid_t process = 0;
    std::string program;  // the kernel's name of it
    // TOML. Empty: it did not answer within a second, because the process is stopped, or has
    // another version of this library. Keys:
    //
    //   name = "mlx5_0"
    //   [[queue_pairs]]       one for each
    //   number, transport ("RC", "UC", "UD"), state ("RESET", "INIT", "RTR", "RTS", "ERR"),
    //   peer (another queue pair's number, if it has one),
    //   requests (executed), messages (received), bytes_sent, bytes_received (payload), not_ready
    //   (times a message found no receive at the peer), faults (a table of a fault policy's actions
    //   and how often they struck)
    std::string description;
};

// By process and name. Throws Error(device_error) if the kernel's list cannot be read.
[[gnu::visibility("default")]] std::vector<RunningDevice> running_devices();

}  // namespace verbatim::softnic
