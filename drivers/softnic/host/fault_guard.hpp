// Survives that registered memory is gone: a real device keeps the pages that it was told of, this
// one finds nothing there. A fault inside run_guarded() ends it; every other one is the program's
// business as before. Threads: any; those that block SIGSEGV or SIGBUS are not guarded.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim::softnic {

// Puts itself before the program's handlers of SIGSEGV and SIGBUS, and again if the program has
// set others meanwhile.
void guard_against_faults() noexcept;

struct FaultFrame {
    void* registers[5];
    FaultFrame* outer;
    const void* address;  // that was touched
};
// Of this thread, while it is guarded.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local FaultFrame* t_fault_frame;

// False: `work` touched memory that is not there, at `address`, and was left there and then:
// nothing in it is destroyed. So no locks, and nothing that owns anything, in what it calls. What
// touches the memory must be a call that is not inlined: in a function without calls g++ 12 keeps
// its frame where the way back from a fault does not find it.
template <class Work>
[[gnu::noinline]] bool run_guarded(Work&& work, const void*& address) noexcept {
    FaultFrame frame;
    frame.outer = t_fault_frame;
    if (__builtin_setjmp(frame.registers) != 0) {
        // Registers are not what they were.
        address = t_fault_frame->address;
        t_fault_frame = t_fault_frame->outer;
        return false;
    }
    t_fault_frame = &frame;
    // For the compiler: accesses stay between the two.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    work();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_fault_frame = frame.outer;
    return true;
}

}  // namespace verbatim::softnic
