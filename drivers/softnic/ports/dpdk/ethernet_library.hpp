// Loads libverbatim-dpdk.so. Control path; threads: any.
#pragma once

#include <memory>

#include <verbatim/softnic/softnic.hpp>

#include "library/ethernet_device.hpp"

namespace verbatim::softnic {

// Throws Error(device_error): the library, DPDK or the device is missing.
std::unique_ptr<EthernetDevice> open_ethernet_device(const DpdkOptions& options);

}  // namespace verbatim::softnic
