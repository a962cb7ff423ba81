// Commands about the device's own memory. Each returns 0 or an errno. Threads: under the device
// file's lock.
#pragma once

namespace verbatim::uverbs {

class Method;
struct DeviceObjects;

int alloc_device_memory(DeviceObjects& device, Method& method);
int free_device_memory(DeviceObjects& device, Method& method);
int register_device_memory(DeviceObjects& device, Method& method);

}  // namespace verbatim::uverbs
