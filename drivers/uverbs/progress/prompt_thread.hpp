// A thread that sleeps most of the time and is to run at once when it is woken, although a thread
// of the program polls on the same core. Threads: the one meant.
#pragma once

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace verbatim::uverbs {

// As sched_setattr(2) has it; the system's header cannot be included beside the C library's.
struct SchedulingAttributes {
    std::uint32_t size = sizeof(SchedulingAttributes), policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 0, deadline = 0, period = 0;
};

inline void make_prompt() noexcept {
    // Naps end when they should; the default is 50 us later.
    prctl(PR_SET_TIMERSLACK, 1000);
    // A thread with a short slice interrupts others in theirs (Linux 6.12; older ones ignore
    // it); this is the shortest. Measured with rc_mlx5 of UCX pinned to two cores: without it a
    // thread that was woken waits for the end of the poller's slice, 1.4 ms.
    constexpr std::uint64_t kSliceNs = 100000;
    SchedulingAttributes wanted;
    if (syscall(SYS_sched_getattr, 0, &wanted, sizeof wanted, 0) != 0) return;
    wanted.runtime = kSliceNs;
    syscall(SYS_sched_setattr, 0, &wanted, 0);
}

}  // namespace verbatim::uverbs
