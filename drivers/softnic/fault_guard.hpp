// Survives that registered memory is gone: a real device keeps the pages that it was told of, this
// one finds nothing there. A fault inside run_guarded() ends it; every other one is the program's
// business as before. Threads: any; those that block SIGSEGV or SIGBUS are not guarded.
#pragma once

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
FaultFrame*& current_fault_frame() noexcept;

// False: `work` touched memory that is not there, at `address`, and was left there and then:
// nothing in it is destroyed. So no locks, and nothing that owns anything, in what it calls.
template <class Work>
[[gnu::noinline]] bool run_guarded(Work&& work, const void*& address) noexcept {
    FaultFrame*& current = current_fault_frame();
    FaultFrame frame{{}, current, nullptr};
    if (__builtin_setjmp(frame.registers) != 0) {
        // Registers are not what they were.
        FaultFrame*& after = current_fault_frame();
        address = after->address;
        after = after->outer;
        return false;
    }
    current = &frame;
    work();
    current_fault_frame() = frame.outer;
    return true;
}

}  // namespace verbatim::softnic
