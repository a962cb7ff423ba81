// What this process has mapped where, as a test sees it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
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

}  // namespace verbatim::interop
