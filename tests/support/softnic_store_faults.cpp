// Counts stores into shared memory and dies at the chosen one.
#include "softnic_store_faults.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "shared_store.hpp"

#ifndef VERBATIM_SOFTNIC_COUNT_STORES
#error "belongs to the counting build of the drivers only"
#endif

namespace {
std::atomic<std::uint64_t> counted{0};
std::atomic<std::uint64_t> fatal{0};
}  // namespace

namespace verbatim::softnic {
inline namespace counted_stores {
void before_store() noexcept {
    if (counted.fetch_add(1, std::memory_order_relaxed) + 1 ==
        fatal.load(std::memory_order_relaxed))
        kill(getpid(), SIGKILL);
}
}  // namespace counted_stores

namespace test {
void die_before_store(std::uint64_t nth) noexcept {
    counted.store(0, std::memory_order_relaxed);
    fatal.store(nth, std::memory_order_relaxed);
}
std::uint64_t stores_counted() noexcept { return counted.load(std::memory_order_relaxed); }
}  // namespace test
}  // namespace verbatim::softnic
