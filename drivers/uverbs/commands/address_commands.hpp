// Commands about addresses: the port's GIDs, and address handles. Each returns 0 or an errno.
// Threads: under the device file's lock.
#pragma once

namespace verbatim::uverbs {

class Command;
class Method;
struct DeviceObjects;

int create_address(DeviceObjects& device, const Command& command);
int destroy_address(DeviceObjects& device, const Command& command);
int query_gid_entry(DeviceObjects& device, Method& method);
int query_gid_table(DeviceObjects& device, Method& method);

}  // namespace verbatim::uverbs
