// Processor time of a process whose connections are idle, while it waits in a blocking call.
#include <time.h>

#include "../workloads.hpp"
#include "many.hpp"

namespace verbatim::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kSettling = 100ms, kAsleep = 1000ms;

double seconds_of(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void sleep_in_receive(Connection& connection, std::chrono::milliseconds time) {
    try {
        (void)connection.receive_message(Deadline::after(time));
    } catch (const Error& error) {
        if (error.code() == Errc::timeout) return;
        throw;
    }
    throw std::runtime_error("a message arrived");
}

// Of all threads of the process. The other side sleeps as well, and longer.
void sleep_idle(Side& side, const Case& of) {
    Many many(side);
    many.add(of.connections);
    sleep_in_receive(many[0], kSettling);
    const double began = seconds_of(CLOCK_MONOTONIC), before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    sleep_in_receive(many[0], kAsleep);
    const double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
    if (side.first()) side.report_amount(0, 100 * used / (seconds_of(CLOCK_MONOTONIC) - began));
    many.meet();
}

}  // namespace

void add_idle(Subjects& all) { add(all, "verbatim.receive", sleep_idle, {&kIdleProcess}); }

}  // namespace verbatim::bench
