// The system call.
#include "membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace verbatim::softnic {

bool join_barriers() noexcept {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void raise_barrier() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace verbatim::softnic
