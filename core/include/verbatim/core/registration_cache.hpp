// A registration cache makes memory outside of arenas usable by the device: malloc(), mmap(),
// std::vector. A lease names such memory, and counts as in flight. The registration is kept when
// the lease ends, for the next one, until the program unmaps, moves or empties the pages.
// docs/foreign-memory.md has the states. Source: Chang, "Safe and Efficient Cluster Communication
// in Java", §2.3 (registration on demand); userfaultfd(2).
//
// Threads: any, also several leases of the same memory. Not data path: a hit costs two system
// calls at most, a miss registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <verbatim/core/local_span.hpp>
#include <verbatim/driver/device.hpp>

namespace verbatim {

class Context;
class CachedRegions;
struct CachedRegion;

struct RegistrationOptions {
    std::size_t max_bytes = std::size_t{1} << 30;  // registered, in flight and kept together
    std::size_t max_entries = 1024;                // of these; 1 .. 65,536
    bool watch = true;           // false: nothing is kept, each lease registers and releases
    std::size_t copy_below = 0;  // bytes that are cheaper to copy than to register; 0: measured
};

struct RegistrationUsage {
    std::size_t entries = 0, bytes = 0;  // registered now; bytes of whole pages
    std::size_t in_flight = 0;           // leases
    std::uint64_t hits = 0, misses = 0;
    std::uint64_t on_demand = 0;    // of the misses: not kept, as nobody tells of such memory
    std::uint64_t invalidated = 0;  // entries whose memory was unmapped, moved or emptied
    std::uint64_t evicted = 0;      // entries that went for others
};

// Memory that is registered, as long as this lives. The program keeps it mapped until then. It
// lives until the operations that use it are done. Threads: one at a time.
class Registered {
  public:
    Registered() noexcept = default;
    Registered(Registered&& other) noexcept { swap(other); }
    Registered& operator=(Registered&& other) noexcept {
        Registered moved(std::move(other));
        moved.swap(*this);
        return *this;
    }
    ~Registered() { release(); }

    explicit operator bool() const noexcept { return region_ != nullptr; }
    // Of the bytes that were asked for, for one-sided operations. Empty, which they refuse: bytes
    // outside of these, or others than const ones of memory that is only read.
    template <class T>
    LocalSpan<T> local(std::span<T> part) const noexcept {
        const bool good = covers(part.data(), part.size_bytes()) &&
                          (std::is_const_v<T> || allows(access_, Access::local_write));
        return good ? LocalSpan<T>(part, region_) : LocalSpan<T>();
    }
    bool covers(const void* start, std::size_t bytes) const noexcept {
        const auto offset = reinterpret_cast<std::uintptr_t>(start) - start_;
        return region_ != nullptr && offset <= bytes_ && bytes <= bytes_ - offset;
    }
    Access access() const noexcept { return access_; }
    const MemoryRegion* region() const noexcept { return region_; }
    // Ends it before the destructor does.
    void release() noexcept;

  private:
    friend class RegistrationCache;
    void swap(Registered& other) noexcept {
        std::swap(regions_, other.regions_);
        std::swap(entry_, other.entry_);
        std::swap(region_, other.region_);
        std::swap(start_, other.start_);
        std::swap(bytes_, other.bytes_);
        std::swap(access_, other.access_);
    }

    std::shared_ptr<CachedRegions> regions_;
    CachedRegion* entry_ = nullptr;
    const MemoryRegion* region_ = nullptr;
    std::uintptr_t start_ = 0;
    std::size_t bytes_ = 0;
    Access access_ = Access::local_read;
};

class RegistrationCache {
  public:
    // As [foreign] of the context's configuration says. The context outlives cache and leases.
    explicit RegistrationCache(Context& context);
    // Throws Error(config_error): no bytes, or a number of entries that is out of range.
    RegistrationCache(Context& context, const RegistrationOptions& options);
    RegistrationCache(const RegistrationCache&) = delete;
    RegistrationCache& operator=(const RegistrationCache&) = delete;
    // Leases live on.
    ~RegistrationCache() = default;

    // Throws Error: invalid_argument (not mapped as a whole, or read-only and local_write is
    // wanted; also in a forked child, which has no device), out_of_memory (max_bytes or max_entries
    // are in flight; or the kernel refuses to pin, with the memlock remedy).
    Registered acquire(void* memory, std::size_t bytes, Access access = kLendable);
    template <class T>
    Registered acquire(std::span<T> memory) {
        return acquire(const_cast<std::remove_const_t<T>*>(memory.data()), memory.size_bytes(),
                       std::is_const_v<T> ? Access::local_read : kLendable);
    }
    // So many bytes are cheaper to copy into an arena than to acquire, where the memory is acquired
    // again and again. As configured; else measured by the first call, which takes milliseconds,
    // needs 4 MiB of max_bytes, and throws as acquire().
    std::size_t copy_below();
    bool copies(std::size_t bytes) { return bytes < copy_below(); }
    // Releases what is not in flight.
    void clear() noexcept;
    RegistrationUsage usage() const;

    // Written by the device, and to be lent (Grant).
    static constexpr Access kLendable = Access::local_write | Access::window_bind;

  private:
    std::shared_ptr<CachedRegions> regions_;
};

}  // namespace verbatim
