// Commands about memory windows. Each returns 0 or an errno. Threads: under the device file's lock.
#pragma once

namespace verbatim::uverbs {

class Command;
struct DeviceObjects;

int alloc_window(DeviceObjects& device, const Command& command);
int dealloc_window(DeviceObjects& device, const Command& command);

}  // namespace verbatim::uverbs
