// Counts the instructions a function executes in this thread, one by one by means of the
// processor's trap flag: for programs whose instructions valgrind does not know (AVX-512). Threads:
// one count at a time.
#pragma once

#include <signal.h>
#include <x86gprintrin.h>

#include <cstdint>

namespace verbatim::bench {

class Stepped {
  public:
    // What of `work` the processor executed, and a few instructions of the call.
    template <class Work>
    static std::uint64_t count(Work&& work) {
        struct sigaction stepping {};
        struct sigaction previous {};
        stepping.sa_handler = [](int) { steps_ = steps_ + 1; };
        sigaction(SIGTRAP, &stepping, &previous);
        const std::uint64_t before = steps_;
        const unsigned long long flags = __readeflags();
        asm volatile("" ::: "memory");
        __writeeflags(flags | kTrapFlag);
        work();
        __writeeflags(flags & ~kTrapFlag);
        asm volatile("" ::: "memory");
        sigaction(SIGTRAP, &previous, nullptr);
        return steps_ - before;
    }

  private:
    static constexpr unsigned long long kTrapFlag = 0x100;
    static inline volatile std::uint64_t steps_ = 0;
};

}  // namespace verbatim::bench
