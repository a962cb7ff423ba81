// The memory regions of an arena: each segment is registered with the device when it is first used,
// and found from then on by one shift. Keeps the arena alive. Threads: any. Looking up what is
// registered takes no lock; registering does (control path).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/driver/device.hpp>

namespace verbatim {

// Ends all remote rights to a region. False, and a line in the log about `object`: a process is
// stopped in the middle of a copy there.
bool release(MemoryRegion& region, const char* object) noexcept;

class RegionTable {
  public:
    RegionTable(Device& device, std::shared_ptr<Arena> arena, Access access);

    Arena& arena() const noexcept { return *arena_; }
    const std::shared_ptr<Arena>& arena_ptr() const noexcept { return arena_; }

    // The region that holds `p`, or null where its segment has not been registered.
    const MemoryRegion* find(const void* p) const noexcept {
        const std::size_t offset = offset_of(p);
        if (offset >= arena_->reserved_bytes()) return nullptr;
        return regions_[offset >> segment_log2_].load(std::memory_order_acquire);
    }
    // Registers what is missing of the populated segments under [p, p + bytes). Throws Error:
    // invalid_argument (outside the arena, or not populated), or what the device says.
    void ensure(const void* p, std::size_t bytes);
    // find() after ensure(), with an error value; registers at the first use of a segment.
    Errc find_or_register(const void* p, const MemoryRegion*& region) noexcept;

    // Bytes from p to the end of its segment.
    std::size_t to_segment_end(const void* p) const noexcept {
        const std::size_t segment = std::size_t{1} << segment_log2_;
        return segment - (offset_of(p) & (segment - 1));
    }

  private:
    std::size_t offset_of(const void* p) const noexcept {
        return reinterpret_cast<std::uintptr_t>(p) -
               reinterpret_cast<std::uintptr_t>(arena_->base());
    }

    Device& device_;
    std::shared_ptr<Arena> arena_;
    Access access_;
    unsigned segment_log2_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<MemoryRegion>> owned_;  // in order of registration
    // By segment; written under the mutex once, from null.
    std::unique_ptr<std::atomic<const MemoryRegion*>[]> regions_;
};

}  // namespace verbatim
