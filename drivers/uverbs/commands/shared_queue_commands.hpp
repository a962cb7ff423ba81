// Commands about shared receive queues. Each returns 0 or an errno. Threads: under the device
// file's lock.
#pragma once

namespace verbatim::uverbs {

class Command;
struct DeviceObjects;

int create_shared_queue(DeviceObjects& device, const Command& command);
int create_typed_shared_queue(DeviceObjects& device, const Command& command);
int modify_shared_queue(DeviceObjects& device, const Command& command);
int query_shared_queue(DeviceObjects& device, const Command& command);
int destroy_shared_queue(DeviceObjects& device, const Command& command);

}  // namespace verbatim::uverbs
