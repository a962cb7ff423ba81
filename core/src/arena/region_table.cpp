// Registration of arena segments.
#include "region_table.hpp"

#include <bit>
#include <utility>

#include <fmt/format.h>
#include <verbatim/driver/log.hpp>

namespace verbatim {

RegionTable::RegionTable(Device& device, std::shared_ptr<Arena> arena, Access access)
    : device_(device),
      arena_(std::move(arena)),
      access_(access),
      segment_log2_(static_cast<unsigned>(std::countr_zero(arena_->options().segment_bytes))),
      regions_(new std::atomic<const MemoryRegion*>[arena_->reserved_bytes() >> segment_log2_]()) {}

bool release(MemoryRegion& region, const char* object) noexcept try {
    region.release();
    return true;
} catch (const std::exception& error) {
    log::debug("{}: {}", object, error.what());
    return false;
}

void RegionTable::ensure(const void* p, std::size_t bytes) {
    const std::size_t offset = offset_of(p), populated = arena_->usage().populated_bytes;
    if (offset >= populated || bytes > populated - offset)
        throw Error(Errc::invalid_argument, "arena " + arena_->options().name,
                    fmt::format("{} bytes at {} do not lie in it", bytes, p),
                    "allocate what is sent or received there from the arena");
    const std::lock_guard lock(mutex_);
    for (std::size_t i = offset >> segment_log2_; i << segment_log2_ < offset + bytes; ++i) {
        if (regions_[i].load(std::memory_order_relaxed) != nullptr) continue;
        const Arena::Segment segment = arena_->segment(i);
        owned_.push_back(device_.register_memory(segment.address, segment.bytes, access_,
                                                 {segment.file, segment.file_offset}));
        regions_[i].store(owned_.back().get(), std::memory_order_release);
    }
}

Errc RegionTable::find_or_register(const void* p, const MemoryRegion*& region) noexcept {
    region = find(p);
    if (region != nullptr) [[likely]]
        return Errc::ok;
    try {
        ensure(p, 1);
    } catch (const Error& error) {
        log::debug("{}", error.what());
        return error.code();
    } catch (...) {
        return Errc::out_of_memory;
    }
    region = find(p);
    return Errc::ok;
}

}  // namespace verbatim
