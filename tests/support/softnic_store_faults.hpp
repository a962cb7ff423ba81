// Death, or another event, at a chosen store into shared memory; see
// drivers/softnic/host/shared_store.hpp. Only in programs linked with the counting build of the
// drivers.
#pragma once

#include <cstdint>

namespace verbatim::softnic::test {

// Kills this process (SIGKILL) just before its nth store from now on; 0: never.
void die_before_store(std::uint64_t nth) noexcept;
// Stores since the last call of die_before_store().
std::uint64_t stores_counted() noexcept;

// Stops this process (SIGSTOP) just before the calling thread's nth store from now on; 0: never.
void stop_before_store(std::uint64_t nth) noexcept;
// Holds the calling thread just before its nth store from now on, until go_on(); 0: never.
void hold_before_store(std::uint64_t nth) noexcept;
// Whether a thread is held. By another thread.
bool is_held() noexcept;
void go_on() noexcept;
// Stores of this thread since one of the two was called.
std::uint64_t own_stores_counted() noexcept;

}  // namespace verbatim::softnic::test
