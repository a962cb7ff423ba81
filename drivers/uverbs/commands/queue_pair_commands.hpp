// Commands about queue pairs. Each returns 0 or an errno. Threads: under the device file's lock.
#pragma once

namespace verbatim::uverbs {

class Command;
struct DeviceObjects;

int create_queue_pair(DeviceObjects& device, const Command& command);
int create_queue_pair_extended(DeviceObjects& device, const Command& command);
int modify_queue_pair(DeviceObjects& device, const Command& command);
int modify_queue_pair_extended(DeviceObjects& device, const Command& command);
int query_queue_pair(DeviceObjects& device, const Command& command);
int destroy_queue_pair(DeviceObjects& device, const Command& command);

}  // namespace verbatim::uverbs
