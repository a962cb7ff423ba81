// Process-wide memory barriers: one thread makes the running threads of all processes that take
// part pass a full barrier, so that these need no fences of their own. Linux, membarrier(2).
// Threads: any.
#pragma once

namespace verbatim::softnic {

// Registers this process for the barriers of others. False: the kernel refuses. Cheap after the
// first call; a forked child stays registered, a program that is executed does not.
bool join_barriers() noexcept;

// Every thread of every process that joined, and the calling one, has passed a full barrier when
// this returns. Where the kernel refuses, the calling one only. 1.1 us on an idle virtual machine
// of 2 cores.
void raise_barrier() noexcept;

}  // namespace verbatim::softnic
