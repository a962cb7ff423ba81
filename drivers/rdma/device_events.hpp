// Events of a device that are not completions. Threads: any.
#pragma once

#include <optional>

#include <verbatim/driver/device.hpp>

#include "port.hpp"

namespace verbatim::rdma {

// So that taking an event never blocks. Throws Error(device_error).
void make_nonblocking(const Port& port);
// The next event; nothing where none waits. Those of other ports of the device are passed over.
std::optional<DeviceEvent> take_event(const Port& port);

}  // namespace verbatim::rdma
