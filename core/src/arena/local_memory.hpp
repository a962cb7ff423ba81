// Local memory of a request lies in an arena, whose segments are registered at their first use, or
// in one region that the caller has looked up. Threads: any; both outlive it.
#pragma once

#include <cstddef>
#include <limits>

#include <verbatim/driver/device.hpp>

#include "region_table.hpp"

namespace verbatim {

class LocalMemory {
  public:
    explicit LocalMemory(RegionTable& arena) noexcept : arena_(&arena) {}
    explicit LocalMemory(const MemoryRegion& region) noexcept : region_(&region) {}

    // The region that holds `p`. Errors: those of RegionTable::find_or_register().
    Errc find(const void* p, const MemoryRegion*& region) const noexcept {
        if (arena_ != nullptr) [[likely]]
            return arena_->find_or_register(p, region);
        region = region_;
        return Errc::ok;
    }
    // Registers what is missing. Throws Error.
    void ensure(const void* p, std::size_t bytes) const {
        if (arena_ != nullptr) arena_->ensure(p, bytes);
    }
    // Bytes from p on that are known to have p's region.
    std::size_t to_end(const void* p) const noexcept {
        return arena_ != nullptr ? arena_->to_segment_end(p)
                                 : std::numeric_limits<std::size_t>::max();
    }

  private:
    RegionTable* arena_ = nullptr;
    const MemoryRegion* region_ = nullptr;
};

}  // namespace verbatim
