// Commands about protection domains and the memory regions in them. Each returns 0 or an errno.
// Threads: under the device file's lock.
#pragma once

namespace verbatim::uverbs {

class Command;
class Method;
struct DeviceObjects;

int alloc_domain(DeviceObjects& device, const Command& command);
int dealloc_domain(DeviceObjects& device, const Command& command);
int register_memory(DeviceObjects& device, const Command& command);
int reregister_memory(DeviceObjects& device, const Command& command);
int deregister_memory(DeviceObjects& device, const Command& command);
int advise_memory(DeviceObjects& device, Method& method);

}  // namespace verbatim::uverbs
