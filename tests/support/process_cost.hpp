// What this process has in use, as a test sees it: memory, descriptors, mappings.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace verbatim::test {

struct ProcessCost {
    long bytes = 0;        // resident, shared pages too
    long descriptors = 0;  // open ones
    long mappings = 0;

    ProcessCost operator-(const ProcessCost& other) const {
        return {bytes - other.bytes, descriptors - other.descriptors, mappings - other.mappings};
    }
};

inline ProcessCost process_cost() {
    ProcessCost cost;
    std::ifstream memory("/proc/self/smaps_rollup");
    for (std::string word; memory >> word;)
        if (word == "Rss:" && memory >> cost.bytes) break;
    cost.bytes *= 1024;
    if (DIR* const files = opendir("/proc/self/fd")) {
        while (readdir(files) != nullptr) ++cost.descriptors;
        closedir(files);
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++cost.mappings;
    return cost;
}

}  // namespace verbatim::test
