// Death at a chosen store into shared memory; see drivers/softnic/shared_store.hpp. Only in
// programs linked with the counting build of the drivers.
#pragma once

#include <cstdint>

namespace verbatim::softnic::test {

// Kills this process (SIGKILL) just before its nth store from now on; 0: never.
void die_before_store(std::uint64_t nth) noexcept;
// Stores since the last call of die_before_store().
std::uint64_t stores_counted() noexcept;

}  // namespace verbatim::softnic::test
