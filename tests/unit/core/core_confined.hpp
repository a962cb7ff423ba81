// A confined body runs in a thread of its own, where most system calls are death, and operator new
// is counted. Include it in exactly one file of a program (counted_allocations.hpp).
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>

#include "counted_allocations.hpp"

namespace verbatim::test {

enum ConfinedResult { kClean = 0, kAllocated = 2, kWrong = 3, kNotConfined = 4 };

// What a thread may still call: read, write and exit; or epoll_wait besides, and the clock, which
// is a system call on some machines. A thread that breaks the first is killed alone.
enum class Confinement { strict, may_look };

inline bool confine(Confinement how) {
    if (how == Confinement::strict) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0;
    static constexpr std::array<unsigned, 5> kAllowed{SYS_read, SYS_write, SYS_exit, SYS_epoll_wait,
                                                      SYS_clock_gettime};
    std::array<sock_filter, 2 * kAllowed.size() + 2> program{};
    program[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    for (std::size_t i = 0; i < kAllowed.size(); ++i) {
        program[2 * i + 1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAllowed[i], 0, 1);
        program[2 * i + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    program.back() = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    const sock_fprog filter{program.size(), program.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Runs `body` so. An exception allocates by malloc(), unseen by operator new, but needs more of the
// heap than is there.
template <class Body>
int confined(Body body, Confinement how = Confinement::strict) {
    std::atomic<int> result{kWrong};
    std::thread worker([&] {
        // The thread's heap exists: a small allocation makes no system call.
        int* volatile first = new int(1);
        delete first;
        if (!confine(how)) {
            result = kNotConfined;
            return;
        }
        const std::uint64_t before = allocations_of_this_thread;
        const bool right = body();
        const bool allocated = allocations_of_this_thread != before;
        result = !right ? kWrong : allocated ? kAllocated : kClean;
        syscall(SYS_exit, 0);
    });
    worker.join();
    return result;
}

}  // namespace verbatim::test
