// Real RDMA devices are opened through rdma-core. Those with mlx5 queues (ConnectX-4 and later,
// BlueField) execute the data path's entries. Only their control path is here: once a queue pair is
// made, posting and polling use its queue view. All others, and those on request, are posted to by
// ibv_post_send and polled by ibv_poll_cq, behind the same views.
#pragma once

#include <memory>
#include <string>

#include <verbatim/driver/device.hpp>

namespace verbatim::rdma {

// The way of work requests to the device.
enum class DataPath {
    automatic,  // mlx5 where the device has such queues, else verbs
    mlx5,
    verbs,
};

struct Options {
    // Empty: the first device whose port is active, those with mlx5 queues before others.
    std::string name;
    int port = 1;
    // -1: the RoCE v2 entry of the address by which the peer is reached
    // (QueuePairOptions::local_address), if the device has it. Else the entry with the widest
    // scope. Logged.
    int gid_index = -1;
    int service_level = 0;  // 0 .. 15; over Ethernet 0 .. 7, the priority of its frames
    int traffic_class = 0;  // 0 .. 255: of the IP header, where DSCP and ECN are
    DataPath data_path = DataPath::automatic;
};

// Throws Error: no_device (the text lists the devices found, with reasons), device_error,
// permission_denied, config_error (gid_index).
std::unique_ptr<Device> open_device(const Options& options = {});

}  // namespace verbatim::rdma
