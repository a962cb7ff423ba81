// Commands about XRC domains and open targets. Each returns 0 or an errno. Threads: under the
// device file's lock.
#pragma once

#include <cstdint>
#include <memory>

#include "../objects/xrc_objects.hpp"

namespace verbatim::uverbs {

class Command;
struct DeviceObjects;

int open_xrc_domain(DeviceObjects& device, const Command& command);
int close_xrc_domain(DeviceObjects& device, const Command& command);
int open_queue_pair(DeviceObjects& device, const Command& command);

// A program's handle of a target; 0: there are no more handles.
std::uint32_t add_target_handle(DeviceObjects& device, const std::shared_ptr<XrcTarget>& target,
                                OpenXrcDomain& open, std::uint64_t user_handle);

}  // namespace verbatim::uverbs
