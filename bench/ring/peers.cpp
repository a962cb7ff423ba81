#include "peers.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>

namespace verbatim::bench {
namespace {

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

SecondProcess::SecondProcess(Body body) : page_(::new (memory_.start()) SharedPage) {
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
