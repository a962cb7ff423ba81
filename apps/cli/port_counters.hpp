// Port counters are those that the kernel shows of an RDMA device's port.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace cli {

// By name, those of counters/ and hw_counters/; empty where the device has none. `root`:
// /sys/class/infiniband, but for tests.
std::map<std::string, std::uint64_t> port_counters(const std::string& root,
                                                   const std::string& device, std::uint64_t port);

}  // namespace cli
