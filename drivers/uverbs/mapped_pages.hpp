// Where a program has mapped the register pages of a device file. libmlx5 maps them when it opens a
// device, those of thread domains later. The system is asked, because programs and libraries that
// take the place of mmap(), as UCX does, leave nobody else to see it. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../softnic/shared_memory.hpp"

namespace verbatim::uverbs {

struct MappedPages {
    std::uintptr_t start;
    std::size_t bytes;
    std::uint64_t offset;  // in the file
};

// All that can be written to, by address. Throws Error(device_error) if the system does not say.
std::vector<MappedPages> mapped_for_writing(const softnic::FileIdentity& file);

}  // namespace verbatim::uverbs
