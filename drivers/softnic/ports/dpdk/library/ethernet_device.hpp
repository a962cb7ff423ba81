// An Ethernet device sends and receives whole frames in bursts. It is made by the library
// libverbatim-dpdk.so, which alone links DPDK and is loaded where a configuration asks for it; both
// sides are built from one tree.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::softnic {

using MacAddress = std::array<std::uint8_t, 6>;

// A received frame: its bytes, until its owner is given to release().
struct ReceivedFrame {
    std::byte* bytes = nullptr;
    std::size_t count = 0;
    void* owner = nullptr;
};
// A frame to be sent: the headers, and the pieces behind them. It is copied.
struct OutgoingFrame {
    std::span<const std::byte> headers;
    std::span<const iovec> pieces;
};

// No member blocks, allocates or throws.
class EthernetDevice {
  public:
    EthernetDevice() = default;
    virtual ~EthernetDevice() = default;
    EthernetDevice(const EthernetDevice&) = delete;
    EthernetDevice& operator=(const EthernetDevice&) = delete;

    virtual MacAddress mac() const noexcept = 0;
    // Bytes of the longest IP packet that a frame may carry.
    virtual std::size_t mtu() const noexcept = 0;
    // Returns how many frames came. One thread at a time.
    virtual std::size_t receive(std::span<ReceivedFrame> frames) noexcept = 0;
    // Any thread.
    virtual void release(std::span<void* const> owners) noexcept = 0;
    // Frames that the device has no room for are lost. Returns how many were taken. Any thread.
    virtual std::size_t send(std::span<const OutgoingFrame> frames) noexcept = 0;
};

// What the library is asked for.
struct EthernetSettings {
    const char* device = "";  // of DPDK, with its parameters; of a host: name or number of a port
    const char* arguments = "";  // for the EAL, separated by spaces
    bool host = false;           // the program has set up the EAL, and may have set up the port
    std::size_t mtu = 0;         // 0: as the device has it
    bool hears_groups = false;   // frames to groups of devices are wanted, too (IPv6)
};
struct EthernetFailure {
    std::array<char, 128> object{};
    std::array<char, 512> cause{};
    std::array<char, 256> remedy{};
};

// The one function of the library: null where it failed. The caller deletes the device. Control
// path; threads: any.
using OpenEthernet = EthernetDevice*(const EthernetSettings& settings, EthernetFailure& failure);
inline constexpr const char* kOpenEthernet = "verbatim_dpdk_open_2";

}  // namespace verbatim::softnic
