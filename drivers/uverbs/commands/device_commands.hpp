// Commands about the device: its context, what it says of itself and of its port. Each returns 0 or
// an errno. Threads: under the device file's lock.
#pragma once

namespace verbatim::uverbs {

class Command;
class Method;
struct DeviceObjects;

int get_context(DeviceObjects& device, const Command& command);
int query_device(DeviceObjects& device, const Command& command);
int query_device_extended(DeviceObjects& device, const Command& command);
int query_port(DeviceObjects& device, const Command& command);
int query_context(DeviceObjects& device, Method& method);

// Says in the log that contexts cannot be imported. Threads: any.
void refuse_import() noexcept;

}  // namespace verbatim::uverbs
