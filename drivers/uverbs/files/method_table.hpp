// The ioctl() methods that a device file executes, by object and number.
#pragma once

#include "../commands/device_objects.hpp"
#include "../protocol/method.hpp"

namespace verbatim::uverbs {

// Executes one method; 0 or an errno. What is not known is refused (EPROTONOSUPPORT), after which
// libibverbs writes a command if it has one; ENOTTY would turn every method off for the whole
// process. Threads: under the device file's lock.
int execute_method(DeviceObjects& device, Method& method);

}  // namespace verbatim::uverbs
