// What this process has mapped where, as a test sees it.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

namespace verbatim::interop {

// The line of /proc/self/maps about an address; empty: nothing is there. `flags`: its flags
// instead.
inline std::string mapping_at(const void* address, bool flags = false) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    std::ifstream maps("/proc/self/smaps");
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long first = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2) {
            found = first <= wanted && wanted < end;
            if (found && !flags) return line;
        }
        if (found && flags && line.starts_with("VmFlags:")) return line + " ";
    }
    return {};
}

// Whether peers may map what lies there.
inline bool is_shared(const void* address) {
    return mapping_at(address).find("verbatim-pages") != std::string::npos;
}

// How many windows onto other processes' memory are mapped here.
inline int windows_onto_peers() {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
        unsigned long first = 0, end = 0, offset = 0;
        std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &first, &end, &offset);
        if (line.find("verbatim-pages") != std::string::npos && first != offset) ++count;
    }
    return count;
}

// Memory goes. One call leaves its addresses without access: after an unmapping any thread's next
// mapping could take them, and what should fail would find memory again.
inline void lose(void* memory, std::size_t bytes) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(memory, bytes, PROT_NONE, kFlags, -1, 0) != memory)
        throw std::runtime_error("mmap over memory failed");
}

}  // namespace verbatim::interop
