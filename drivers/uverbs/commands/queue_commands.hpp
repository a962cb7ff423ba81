// Commands about completion channels and completion queues. Each returns 0 or an errno. Threads:
// under the device file's lock.
#pragma once

#include <cstdint>

namespace verbatim::uverbs {

class Command;
struct DeviceObjects;

int create_channel(DeviceObjects& device, const Command& command);
int create_completion_queue(DeviceObjects& device, const Command& command);
int create_completion_queue_extended(DeviceObjects& device, const Command& command);
int resize_completion_queue(DeviceObjects& device, const Command& command);
int modify_completion_queue(DeviceObjects& device, const Command& command);
int destroy_completion_queue(DeviceObjects& device, const Command& command);

// Of events; microseconds.
inline constexpr std::uint16_t kMaxModerationCount = 0xffff, kMaxModerationPeriod = 0xfff;

}  // namespace verbatim::uverbs
