// Memory that processes hold, as the kernel counts it.
#pragma once

#include <sys/types.h>

#include <span>

namespace verbatim::bench {

struct MemoryCount {
    double pages = 0;        // private and of mapped files, KiB (Pss_Anon + Pss_File)
    double files = 0;        // memory files: what they hold, mapped or not, each counted once, KiB
    double tables = 0;       // page tables, KiB
    double slab = 0;         // of the kernel, of the whole machine: sockets, descriptors, KiB
    double descriptors = 0;  // open
    double mappings = 0;     // areas of addresses

    // Without the slab, in which all processes of the machine have a part.
    double all() const noexcept { return pages + files + tables; }
};

// Of all these processes together. Throws std::runtime_error.
MemoryCount count_memory(std::span<const pid_t> processes);

}  // namespace verbatim::bench
