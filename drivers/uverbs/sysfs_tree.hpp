// The part of /sys from which libibverbs learns that there is a device and that libmlx5 drives it:
// a private copy of it in a temporary directory. GID files are read at every query, so the tree
// lives as long as the process that made it. Threads: any, once made.
#pragma once

#include <sys/types.h>

#include <string>

namespace verbatim::uverbs {

// What the tree says about the device, and what the device answers when it is asked itself.
struct Identity {
    static constexpr const char* kName = "mlx5_0";
    static constexpr const char* kNode = "uverbs0";
    static constexpr const char* kDevicePath = "/dev/infiniband/uverbs0";
    static constexpr const char* kFirmware = "16.35.2000";
    static constexpr const char* kBoard = "VERBATIM_SOFTNIC";
    static constexpr unsigned kVendorOui = 0x02c9;  // as queries answer it
    static constexpr unsigned kPciVendor = 0x15b3;  // as PCI says it
    static constexpr unsigned kPciDevice = 4121;    // ConnectX-5 Ex
    static constexpr unsigned kMajor = 231, kMinor = 192;
    static constexpr unsigned char kGuid[8] = {0x02, 0x76, 0x62, 0xff, 0xfe, 0x6d, 0x00, 0x01};
    static constexpr unsigned char kMac[6] = {0x00, 0x76, 0x62, 0x6d, 0x00, 0x01};
    static constexpr int kGids = 4;
};

// Owns a directory tree below $TMPDIR (or /tmp).
class SysfsTree {
  public:
    // Throws Error(device_error) where the tree cannot be made.
    SysfsTree();
    ~SysfsTree();
    SysfsTree(const SysfsTree&) = delete;
    SysfsTree& operator=(const SysfsTree&) = delete;

    // To be SYSFS_PATH of libibverbs.
    const std::string& root() const noexcept { return root_; }

  private:
    std::string root_;
    pid_t maker_;  // a forked child leaves the tree to its parent
};

}  // namespace verbatim::uverbs
