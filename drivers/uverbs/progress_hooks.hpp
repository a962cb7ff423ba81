// Execution in the threads of an unmodified program: libmlx5's poll, post and arm functions are
// called through tables in libibverbs' objects, and those tables are changed after libmlx5 has
// filled them. Its own function does the work as ever; then the engine runs, in the same thread.
// Without this the engine thread would be late by a nap. Programs that write and read queues by
// themselves have only that thread. Threads: any.
#pragma once

#include <infiniband/verbs.h>

namespace verbatim::uverbs {

class DeviceFile;

// Null: the descriptor is none of ours. Defined where descriptors are handed out.
DeviceFile* find_device_file(int descriptor) noexcept;

// Takes over the tables of a context that libmlx5 has just made.
void take_over(ibv_context* context) noexcept;

}  // namespace verbatim::uverbs
