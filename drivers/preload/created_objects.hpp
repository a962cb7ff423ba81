// Queues and queue pairs that libibverbs has just made on a device: their own tables of functions
// are taken over, whichever function of libibverbs or libmlx5 the program made them by. Threads:
// any.
#pragma once

#include <cstddef>
#include <span>

namespace verbatim::uverbs {

struct OpenFile;

// After a command that the device has executed.
void take_over_made(OpenFile& file, std::span<const std::byte> command) noexcept;

}  // namespace verbatim::uverbs
