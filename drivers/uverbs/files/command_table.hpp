// The commands that a device file executes, by number. Threads: any.
#pragma once

#include "../commands/device_objects.hpp"
#include "../protocol/command.hpp"

namespace verbatim::uverbs {

// Executes one command under the device file's lock; 0 or an errno.
using CommandHandler = int (*)(DeviceObjects& device, const Command& command);

// Null: the command is not supported.
CommandHandler command_handler(const Command& command) noexcept;

}  // namespace verbatim::uverbs
