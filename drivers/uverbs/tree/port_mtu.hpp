// The MTU of the devices' port, which the environment may set. A RoCE port has the largest one of
// InfiniBand's that fits the frames of its network: 4096 where these are of 9000 bytes, 1024 where
// they are of 1500. It bounds datagrams; messages of connections are not cut. Threads: any.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>

#include <verbatim/uverbs/device_tree.hpp>

#include "environment_size.hpp"

namespace verbatim::uverbs {

// In bytes. Throws Error(config_error).
inline std::uint32_t port_mtu() {
    const char* const text = std::getenv(DeviceTree::kMtuVariable);
    if (text == nullptr) return DeviceTree::kDefaultMtu;
    return static_cast<std::uint32_t>(environment_size(
        DeviceTree::kMtuVariable, text, DeviceTree::allows_mtu, DeviceTree::kAllowedMtus));
}

// As verbs name it (enum ibv_mtu): 256 bytes are 1, 4096 are 5.
constexpr std::uint8_t mtu_code(std::uint32_t bytes) noexcept {
    return static_cast<std::uint8_t>(std::countr_zero(bytes) - 7);
}

}  // namespace verbatim::uverbs
