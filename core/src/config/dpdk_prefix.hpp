// The beginning of a port that is a device of DPDK ([device.softnic] port).
#pragma once

#include <string_view>

namespace verbatim {

inline constexpr std::string_view kDpdkPrefix = "dpdk:";

}  // namespace verbatim
