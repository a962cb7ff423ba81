// What this machine and this process may still take: free memory, reserved huge pages, limits.
// Control path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace verbatim::system_memory {

// Bytes that can be populated now without waking the OOM killer: the least of the kernel's
// MemAvailable and the headroom of each memory control group this process is in.
std::uint64_t available_bytes();
// So many bytes can be taken, and 64 MiB are left to the rest of the machine. A quarter of what was
// found is granted without another look for 100 ms: a look reads a dozen files. Any thread.
bool can_take(std::uint64_t bytes);

// The pool of huge pages of one size. `root`: the tree that is read, for tests.
struct HugePages {
    std::uint64_t total = 0, free = 0;  // pages; free ones that nobody has reserved
    bool group_limits = false;          // fewer are free than in the pool: a control group's limit
};
HugePages huge_pages(std::size_t page_bytes, const std::string& root = "");

// "hugepages: wanted N, free M; run: sysctl -w vm.nr_hugepages=K" for `wanted` more pages.
// Where a control group allows fewer than the pool has, the file to raise instead.
std::string huge_page_advice(std::size_t page_bytes, std::uint64_t wanted,
                             const std::string& root = "");

// Bytes that this process may lock or pin in all: RLIMIT_MEMLOCK, or UINT64_MAX where that does not
// bind it (unlimited, or CAP_IPC_LOCK).
std::uint64_t lockable_bytes();
// RLIMIT_MEMLOCK as text: "8388608 bytes" or "unlimited".
std::string memlock_limit();

}  // namespace verbatim::system_memory
