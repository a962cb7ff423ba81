// Cached regions are the registrations of one cache: those in flight, and those that are kept for
// the next use. docs/foreign-memory.md has their states. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/core/registration_cache.hpp>
#include <verbatim/driver/descriptor.hpp>
#include <verbatim/driver/device.hpp>

#include "watched_ranges.hpp"

namespace verbatim {

class MemoryWatch;

// One registration.
struct CachedRegion {
    static constexpr std::size_t kNoSlot = ~std::size_t{0};
    PageRange pages;
    Access access;
    std::size_t slot = kNoSlot;  // none: it serves one lease only
    std::size_t in_flight = 0;   // leases
    std::unique_ptr<MemoryRegion> region;
};

class CachedRegions {
  public:
    using Entry = CachedRegion;

    CachedRegions(Device& device, const RegistrationOptions& options);
    ~CachedRegions();
    CachedRegions(const CachedRegions&) = delete;
    CachedRegions& operator=(const CachedRegions&) = delete;

    // Throws as RegistrationCache::acquire().
    Entry& acquire(std::uintptr_t start, std::size_t bytes, Access access);
    void release(Entry& entry) noexcept;
    void clear() noexcept;
    RegistrationUsage usage() const;
    // As configured; else what `measure` says, once. Throws what that throws.
    template <class Measure>
    std::size_t copy_below(Measure measure) {
        std::call_once(measured_, [&] {
            copy_below_ = options_.copy_below != 0 ? options_.copy_below : measure();
        });
        return copy_below_;
    }

  private:
    using Entries = std::list<Entry>;
    using Index = std::multimap<std::uintptr_t, Entries::iterator>;

    bool is_inherited() const noexcept { return generation_ != fork_generation(); }
    bool is_valid(const Entry& entry) const noexcept;
    // Of all below: under the lock. `out`: entries that are to be destroyed without it.
    Entry* find(const PageRange& pages, Access access) noexcept;
    Entry& add(const PageRange& pages, Access access, bool may_keep, Entries& out);
    void make_room(std::size_t bytes, Entries& out);
    bool keep(Entries::iterator entry);
    void take_out(Entries::iterator entry, Entries& out) noexcept;
    // Takes out the idle entries for which wanted(entry), from the one that was used first, while
    // more().
    template <class Wanted, class More>
    void take_out_idle(Entries& out, Wanted wanted, More more) noexcept;

    Device& device_;
    const RegistrationOptions options_;
    MemoryWatch* const watch_;  // null: nothing is kept
    const std::uint64_t generation_ = fork_generation();
    WatchedRanges ranges_;
    mutable std::mutex mutex_;  // guards what follows; the watch's thread never takes it
    Entries entries_;           // the one that was used last is the last
    Index index_;               // by the first page, those with a slot
    std::vector<std::size_t> free_slots_;
    std::size_t longest_ = 0;  // bytes of the longest entry there ever was
    RegistrationUsage usage_;
    std::once_flag measured_;
    std::size_t copy_below_ = 0;  // of what was measured
};

}  // namespace verbatim
