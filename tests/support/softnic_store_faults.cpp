// Counts stores into shared memory and dies at the chosen one.
#include "softnic_store_faults.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "host/shared_store.hpp"

#ifndef VERBATIM_SOFTNIC_COUNT_STORES
#error "belongs to the counting build of the drivers only"
#endif

namespace {
std::atomic<std::uint64_t> counted{0};
std::atomic<std::uint64_t> fatal{0};

enum class Event { stop, hold };
// Of one thread, so that others go on.
thread_local Event t_event = Event::stop;
thread_local std::uint64_t t_counted = 0, t_chosen = 0;
std::atomic<int> held{0};  // 1: a thread waits until it is 0

void meet(Event event) noexcept {
    if (event == Event::stop) {
        kill(getpid(), SIGSTOP);
        return;
    }
    held.store(1);
    while (held.load() != 0) usleep(100);
}

void choose(Event event, std::uint64_t nth) noexcept {
    t_event = event;
    t_counted = 0;
    t_chosen = nth;
}
}  // namespace

namespace verbatim::softnic {
inline namespace counted_stores {
void before_store() noexcept {
    if (counted.fetch_add(1, std::memory_order_relaxed) + 1 ==
        fatal.load(std::memory_order_relaxed))
        kill(getpid(), SIGKILL);
    if (++t_counted == t_chosen) meet(t_event);
}
}  // namespace counted_stores

namespace test {
void die_before_store(std::uint64_t nth) noexcept {
    counted.store(0, std::memory_order_relaxed);
    fatal.store(nth, std::memory_order_relaxed);
}
void stop_before_store(std::uint64_t nth) noexcept { choose(Event::stop, nth); }
void hold_before_store(std::uint64_t nth) noexcept { choose(Event::hold, nth); }
bool is_held() noexcept { return held.load() != 0; }
void go_on() noexcept { held.store(0); }
std::uint64_t own_stores_counted() noexcept { return t_counted; }
std::uint64_t stores_counted() noexcept { return counted.load(std::memory_order_relaxed); }
}  // namespace test
}  // namespace verbatim::softnic
