#include "peers.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>

namespace verbatim::bench {
namespace {

using Steady = std::chrono::steady_clock;

double ticks_per_microsecond() {
    static const double rate = [] {
        const auto began = Steady::now();
        const std::uint64_t first = __rdtsc();
        while (Steady::now() - began < std::chrono::milliseconds(20)) {
        }
        const std::uint64_t last = __rdtsc();
        const std::chrono::duration<double, std::micro> took = Steady::now() - began;
        return static_cast<double>(last - first) / took.count();
    }();
    return rate;
}

[[noreturn]] void run_second(SecondProcess::Body body, SharedPage& page) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 0;
    try {
        pin_to(1);
        body(page);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "second process: %s\n", error.what());
        status = 1;
    }
    _exit(status);
}

}  // namespace

void pin_to(unsigned core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        throw std::runtime_error("this benchmark needs cores 0 and 1 and may not use one of them");
}

SecondProcess::SecondProcess(Body body) {
    void* memory = mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    page_ = ::new (memory) SharedPage;
    pin_to(0);
    child_ = fork();
    if (child_ < 0) throw std::runtime_error("fork failed");
    if (child_ == 0) run_second(body, *page_);
}

SecondProcess::~SecondProcess() {
    if (child_ > 0) {
        kill(child_, SIGKILL);
        waitpid(child_, nullptr, 0);
    }
    munmap(page_, sizeof(SharedPage));
}

void SecondProcess::wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    if (status != 0) throw std::runtime_error("the second process failed");
}

double RoundTrips::one_way_microseconds() {
    const auto middle = ticks_.begin() + static_cast<std::ptrdiff_t>(ticks_.size() / 2);
    std::nth_element(ticks_.begin(), middle, ticks_.end());
    return static_cast<double>(*middle) / 2 / ticks_per_microsecond();
}

}  // namespace verbatim::bench
