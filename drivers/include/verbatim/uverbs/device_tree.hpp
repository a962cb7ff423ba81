// A device tree copies the part of /sys from which libibverbs learns of devices and their drivers.
// It lies in a temporary directory. GID files are read at every query, so the tree lives as long as
// the programs that use it. A program that preloads libverbatim_uverbs makes one for itself, unless
// kVariable in its environment names one. Threads: any, once made.
#pragma once

#include <sys/types.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace verbatim::uverbs {

class TreeLock;

// Owns a directory below $TMPDIR (or /tmp), and removes those that no process uses any more.
class DeviceTree {
  public:
    static constexpr int kMaxDevices = 16;
    // Environment variables. The first two are for trees, the others for devices that are opened.
    static constexpr const char* kVariable = "VERBATIM_SOFTNIC_TREE";  // root of the tree to use
    static constexpr const char* kDevicesVariable = "VERBATIM_SOFTNIC_DEVICES";  // of an own tree
    // A fault policy (verbatim/softnic/fault_policy.hpp).
    static constexpr const char* kFaultsVariable = "VERBATIM_SOFTNIC_FAULTS";
    static constexpr const char* kRingVariable = "VERBATIM_SOFTNIC_RING_BYTES";  // per queue pair
    // "1": registered memory is shared with peers.
    static constexpr const char* kShareVariable = "VERBATIM_SOFTNIC_SHARE";
    // The way to find doorbells without calls of libibverbs: "trap" or "nap".
    static constexpr const char* kDoorbellsVariable = "VERBATIM_SOFTNIC_DOORBELLS";
    // The connection manager's wait for an answer.
    static constexpr const char* kTimeoutVariable = "VERBATIM_SOFTNIC_CM_TIMEOUT_MS";
    static constexpr const char* kMtuVariable = "VERBATIM_SOFTNIC_MTU";  // of ports
    // "shm", "udp" or "dpdk:" and a device of DPDK; the address of the first device's packets,
    // which DPDK must be given; a file for packets (pcapng).
    static constexpr const char* kPortVariable = "VERBATIM_SOFTNIC_PORT";
    static constexpr const char* kAddressVariable = "VERBATIM_SOFTNIC_ADDRESS";
    static constexpr const char* kCaptureVariable = "VERBATIM_SOFTNIC_CAPTURE";
    // As [device.softnic] dpdk_peer_mac and dpdk_mtu.
    static constexpr const char* kPeerMacVariable = "VERBATIM_SOFTNIC_PEER_MAC";
    static constexpr const char* kFrameMtuVariable = "VERBATIM_SOFTNIC_FRAME_MTU";
    // As [device.softnic] packet_faults.
    static constexpr const char* kPacketFaultsVariable = "VERBATIM_SOFTNIC_PACKET_FAULTS";
    static constexpr const char* kAllowedPorts = "shm, udp or dpdk:<device>";
    static constexpr std::string_view kDpdkPrefix = "dpdk:";
    static constexpr bool allows_port(std::string_view port) noexcept {
        return port == "shm" || port == "udp" ||
               (port.starts_with(kDpdkPrefix) && port.size() > kDpdkPrefix.size());
    }
    static constexpr bool allows_frame_mtu(std::int64_t bytes) noexcept {
        return bytes >= 576 && bytes <= 9000;
    }
    static constexpr const char* kAllowedFrameMtus = "a number from 576 to 9000";
    static constexpr std::uint32_t kDefaultMtu = 4096;
    static constexpr const char* kAllowedMtus = "256, 512, 1024, 2048 or 4096";
    static constexpr bool allows_mtu(std::int64_t bytes) noexcept {
        return bytes >= 256 && bytes <= 4096 &&
               std::has_single_bit(static_cast<std::uint64_t>(bytes));
    }
    // Of kRingVariable.
    static constexpr const char* kAllowedRings = "a size from 4K to 1G, a power of two";
    static constexpr bool allows_ring(std::int64_t bytes) noexcept {
        return bytes >= 4 << 10 && bytes <= 1 << 30 &&
               std::has_single_bit(static_cast<std::uint64_t>(bytes));
    }

    // Throws Error(invalid_argument | device_error).
    explicit DeviceTree(int devices);
    ~DeviceTree();
    DeviceTree(const DeviceTree&) = delete;
    DeviceTree& operator=(const DeviceTree&) = delete;

    // To be SYSFS_PATH of libibverbs.
    const std::string& root() const noexcept { return root_; }

  private:
    std::string root_;
    std::unique_ptr<TreeLock> lock_;
    pid_t maker_;  // a forked child leaves the tree to its parent
};

}  // namespace verbatim::uverbs
