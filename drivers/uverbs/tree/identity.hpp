// What a device is called and what it says of itself, in its tree and when it is asked.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "wire_port.hpp"

namespace verbatim::uverbs {

struct Identity {
    int index = 0;

    static constexpr const char* kDevicePath = "/dev/infiniband/uverbs";  // and the index
    static constexpr const char* kFirmware = "16.35.2000";
    static constexpr const char* kBoard = "VERBATIM_SOFTNIC";
    static constexpr unsigned kVendorOui = 0x02c9;  // as queries answer it
    static constexpr unsigned kPciVendor = 0x15b3;  // as PCI says it
    static constexpr unsigned kPciDevice = 4121;    // ConnectX-5 Ex
    static constexpr unsigned kMajor = 231, kFirstMinor = 192;
    static constexpr unsigned kManagerMinor = 191;  // of the connection manager's device
    static constexpr int kGids = 4;
    static constexpr const char* kInterface = "lo";  // behind all GIDs
    // Their place below /sys. In a PCI domain of their own, all digits decimal: UCX reads them so.
    static constexpr const char* kPciRoot = "/devices/pci7662:00";
    static constexpr const char* kPciDevices = "/bus/pci/devices/7662:";

    std::string name() const { return "mlx5_" + std::to_string(index); }
    std::string pci_name() const {
        std::string number = std::to_string(index);
        if (number.size() == 1) number.insert(0, "0");
        return "7662:00:" + number + ".0";
    }
    std::string node() const { return "uverbs" + std::to_string(index); }
    unsigned minor_number() const noexcept { return kFirstMinor + static_cast<unsigned>(index); }
    std::array<std::uint8_t, 8> guid() const noexcept {
        return {0x02, 0x76, 0x62, 0xff, 0xfe, 0x6d, 0x00, last()};
    }
    std::array<std::uint8_t, 6> mac() const noexcept {
        return {0x00, 0x76, 0x62, 0x6d, 0x00, last()};
    }
    // Link-local and IPv4-mapped addresses of the loopback, or of the first device's packets, each
    // as RoCE v1 and v2.
    std::array<std::uint8_t, 16> gid(int entry) const noexcept {
        if (entry >= 2 && index == 0 && packet_address() != std::array<std::uint8_t, 16>{})
            return packet_address();
        if (entry >= 2) return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last()};
        const auto id = guid();
        std::array<std::uint8_t, 16> bytes{0xfe, 0x80};
        std::copy(id.begin(), id.end(), bytes.begin() + 8);
        return bytes;
    }
    static bool first_version(int entry) noexcept { return entry % 2 == 0; }

  private:
    std::uint8_t last() const noexcept { return static_cast<std::uint8_t>(index + 1); }
};

}  // namespace verbatim::uverbs
