// Execution in the threads of an unmodified program: libmlx5's poll, post and arm functions are
// called through tables in libibverbs' objects, and those tables are changed after libmlx5 has
// filled them. Its own function does the work as ever; then the engine runs, in the same thread.
// Without this the engine thread would be late by a nap. Programs that write and read queues by
// themselves have only that thread. Threads: any.
#pragma once

#include <infiniband/verbs.h>

namespace verbatim::uverbs {

struct OpenFile;

// Takes over the tables of what libmlx5 has just filled: a context; a queue and a queue pair of the
// extended kind, whose tables are empty otherwise.
void take_over(OpenFile& file, ibv_context& context) noexcept;
void take_over(ibv_cq_ex& queue) noexcept;
void take_over(ibv_qp_ex& pair) noexcept;

}  // namespace verbatim::uverbs
