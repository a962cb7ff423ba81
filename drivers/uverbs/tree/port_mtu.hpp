// The MTU of the devices' port, which the environment may set. A RoCE port has the largest one of
// InfiniBand's that fits the frames of its network: 4096 where these are of 9000 bytes, 1024 where
// they are of 1500. It bounds datagrams; in shared memory messages of connections are not cut.
// Threads: any.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <verbatim/uverbs/device_tree.hpp>

#include "../../softnic/ports/roce/packets/packet.hpp"
#include "environment_size.hpp"
#include "wire_port.hpp"

namespace verbatim::uverbs {

// Of DPDK's device. 0: it is not known. Throws Error(config_error).
inline std::size_t frame_mtu() {
    const char* const text = std::getenv(DeviceTree::kFrameMtuVariable);
    if (text == nullptr) return 0;
    return static_cast<std::size_t>(environment_size(DeviceTree::kFrameMtuVariable, text,
                                                     DeviceTree::allows_frame_mtu,
                                                     DeviceTree::kAllowedFrameMtus));
}

// In bytes. Throws Error(config_error).
inline std::uint32_t port_mtu(PacketWay way) {
    constexpr std::size_t kEthernetMtu = 1500;
    const char* const text = std::getenv(DeviceTree::kMtuVariable);
    if (text == nullptr && way == PacketWay::dpdk)
        return std::uint32_t{1} << softnic::path_mtu_log2(frame_mtu() == 0 ? kEthernetMtu
                                                                           : frame_mtu());
    if (text == nullptr) return DeviceTree::kDefaultMtu;
    return static_cast<std::uint32_t>(environment_size(
        DeviceTree::kMtuVariable, text, DeviceTree::allows_mtu, DeviceTree::kAllowedMtus));
}

// As verbs name it (enum ibv_mtu): 256 bytes are 1, 4096 are 5.
constexpr std::uint8_t mtu_code(std::uint32_t bytes) noexcept {
    return static_cast<std::uint8_t>(std::countr_zero(bytes) - 7);
}

}  // namespace verbatim::uverbs
