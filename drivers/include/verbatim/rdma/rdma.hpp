// Real RDMA devices with mlx5 queues (ConnectX-4 and later, BlueField), opened through rdma-core.
// Only the control path is here: once a queue pair is made, posting and polling use its queue view
// and nothing of this.
#pragma once

#include <memory>
#include <string>

#include <verbatim/driver/device.hpp>

namespace verbatim::rdma {

struct Options {
    std::string name;  // empty: the first device with mlx5 queues whose port is active
    int port = 1;
    int gid_index = -1;  // -1: the first RoCE v2 entry; the choice is logged
};

// Throws Error: no_device (the text lists what was found and why it does not do), device_error,
// permission_denied, config_error (gid_index).
std::unique_ptr<Device> open_device(const Options& options = {});

}  // namespace verbatim::rdma
