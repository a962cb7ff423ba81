// Pages of the device's own memory.
#include "device_memory_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include <verbatim/driver/error.hpp>

namespace verbatim::uverbs {

DeviceMemoryPool::DeviceMemoryPool(int file) {
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, kFileOffset);
    if (memory == MAP_FAILED)
        throw Error(Errc::out_of_memory, "software NIC under rdma-core", "no device memory",
                    "free memory or address space");
    memory_ = static_cast<std::byte*>(memory);
}

DeviceMemoryPool::~DeviceMemoryPool() { munmap(memory_, kBytes); }

bool DeviceMemoryPool::take(std::size_t pages, std::size_t alignment, std::size_t& first) noexcept {
    for (first = 0; first + pages <= kPages; first += alignment) {
        const std::span row(taken_.data() + first, pages);
        if (std::ranges::find(row, true) != row.end()) continue;
        std::ranges::fill(row, true);
        std::memset(at(first), 0, pages * kPage);
        return true;
    }
    return false;
}

void DeviceMemoryPool::give(std::size_t first, std::size_t pages) noexcept {
    std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(first), pages, false);
}

}  // namespace verbatim::uverbs
