// An arena allocates memory that devices can reach. It is one contiguous reservation of addresses.
// Sealed memory files (huge pages where reserved) back it segment by segment. They are populated
// before they are handed out, and never copied into a forked child. Because segments lie side by
// side, an allocation or a received graph may span several of them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <verbatim/driver/error.hpp>

namespace verbatim {

enum class PageChoice : std::uint8_t { automatic, base_4k, huge_2m, huge_1g };

struct ArenaOptions {
    std::string name = "arena";             // in messages
    std::size_t segment_bytes = 32u << 20;  // power of two, at least one page; growth step
    std::size_t max_bytes = std::size_t{16}
                            << 30;  // reservation; exceeding it is Errc::out_of_memory
    std::size_t initial_bytes = 0;  // populated at creation, rounded up to segments
    PageChoice pages =
        PageChoice::automatic;  // automatic: 2M where reserved, else 4K with one warning
    bool lock_memory = false;   // mlock segments; needs memlock
    int numa_node = -1;         // -1: the kernel's choice
    // It lies at a random place in the addresses set aside, if those are free.
    bool is_set_aside = false;
};

// Addresses that programs, libraries and heaps do not use. The receive arenas of contexts lie
// there, so that a peer that composes a message finds the addresses of a window free
// (docs/composed.md).
struct SetAside {
    static constexpr std::uint64_t kFirst = std::uint64_t{20} << 40;
    static constexpr std::uint64_t kEnd = std::uint64_t{32} << 40;
    // The thread sanitizer has other uses for most addresses, and ends a program that wants them.
#if defined(__SANITIZE_THREAD__)
    static constexpr bool kIsUsable = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    static constexpr bool kIsUsable = false;
#else
    static constexpr bool kIsUsable = true;
#endif
#else
    static constexpr bool kIsUsable = true;
#endif
};

struct ArenaUsage {
    std::size_t allocated_bytes = 0;  // live allocations, rounded to granules
    std::size_t populated_bytes = 0;  // with pages of memory
    std::size_t reserved_bytes = 0;   // max_bytes
    std::size_t page_bytes = 4096;
    std::size_t huge_bytes = 0;     // of the segments: on huge pages
    std::size_t peak_bytes = 0;     // the most that was ever taken: live, or in caches of threads
    std::size_t cached_bytes = 0;   // free, but kept by threads that allocate at the same time
    std::size_t thread_caches = 0;  // such threads
};

// Allocations are made of 16-byte granules, start on one, and carry no header. So neighbours in
// allocation order are neighbours in memory, and a graph leaves in few pieces (Naos §3.1). Any
// whole granules of an allocation may be given back by themselves (a graph's unused tail). Giving
// back granules that are not live aborts the program, because they could be allocated twice. Debug
// builds abort as well where bytes behind the end were written, in the last granule: give back as
// many bytes as were taken, or whole granules.
// Alignment up to 4096; allocations of 64 KiB and more start on a page. Threads: all members may be
// called from any thread; allocation is not data path. Small blocks of threads that meet in the
// arena come from a cache of each thread, at most 80 KiB; so neighbours of one thread are
// neighbours in memory, too.
class Arena final : public std::pmr::memory_resource {
  public:
    static constexpr std::size_t kGranuleBytes = 16;

    // Throws Error(config_error | out_of_memory | permission_denied) with the remedy.
    explicit Arena(const ArenaOptions& options);
    ~Arena() override;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Constructs a T in the arena. Throws Error(out_of_memory).
    template <class T, class... Args>
    T* make(Args&&... args) {
        void* place = allocate(sizeof(T), alignof(T));
        try {
            if constexpr (std::is_constructible_v<T, Args...>)
                return ::new (place) T(std::forward<Args>(args)...);
            else
                return ::new (place) T{std::forward<Args>(args)...};
        } catch (...) {
            deallocate(place, sizeof(T), alignof(T));
            throw;
        }
    }
    // Destroys an object of make().
    template <class T>
    void destroy(T* object) noexcept {
        object->~T();
        deallocate(object, sizeof(T), alignof(T));
    }

    // allocate(), in steps: null where memory must be populated first. `may_populate`: a segment's
    // rest is then; it becomes false. Call again. Throws Error(out_of_memory).
    void* allocate_part(std::size_t bytes, std::size_t alignment, bool& may_populate);

    std::byte* base() const noexcept { return base_; }
    std::size_t reserved_bytes() const noexcept { return options_.max_bytes; }
    bool contains(const void* p) const noexcept { return offset_of(p) < options_.max_bytes; }
    // True if every granule of [p, p + bytes) belongs to a live allocation; no bytes count as one.
    // Takes no lock; a dozen instructions where the bits share a word.
    [[gnu::always_inline]] bool is_allocated(const void* p, std::size_t bytes) const noexcept {
        const std::size_t offset = offset_of(p);
        if (bytes == 0) bytes = 1;
        if (offset >= options_.max_bytes || bytes > options_.max_bytes - offset) return false;
        const std::uint64_t first = offset / kGranuleBytes,
                            last = (offset + bytes - 1) / kGranuleBytes;
        const std::uint64_t from_first = ~std::uint64_t{0} << (first % 64);
        const std::uint64_t to_last = ~std::uint64_t{0} >> (63 - last % 64);
        if (first / 64 == last / 64) return has_live(first / 64, from_first & to_last);
        if (first / 64 + 1 == last / 64)
            return has_live(first / 64, from_first) && has_live(last / 64, to_last);
        return all_live(first, last - first + 1);
    }

    // The granules of the 4 KiB at `page` that belong to live allocations: bit i of word w is
    // granule 64 w + i. `page` is in the arena and a multiple of 4 KiB. Takes no lock.
    std::array<std::uint64_t, 4> live_granules(std::uintptr_t page) const noexcept {
        const std::uint64_t first =
            (page - reinterpret_cast<std::uintptr_t>(base_)) / kGranuleBytes / 64;
        std::array<std::uint64_t, 4> words;
        for (std::size_t i = 0; i < words.size(); ++i)
            words[i] = std::atomic_ref(live_[first + i]).load(std::memory_order_relaxed);
        return words;
    }

    ArenaUsage usage() const;
    const ArenaOptions& options() const noexcept { return options_; }

    // A piece of the reservation, for registration. The last one may be populated in part.
    struct Segment {
        std::byte* address;
        std::size_t bytes;
        int file;  // sealed memfd, owned by the arena
        std::uint64_t file_offset;
    };
    std::size_t segment_count() const noexcept;
    Segment segment(std::size_t index) const;

  private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override;
    void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override;
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }
    std::size_t offset_of(const void* p) const noexcept {
        return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(base_);
    }
    bool has_live(std::uint64_t word, std::uint64_t mask) const noexcept {
        return (std::atomic_ref(live_[word]).load(std::memory_order_relaxed) & mask) == mask;
    }
    bool all_live(std::uint64_t first, std::uint64_t granules) const noexcept;
    std::uint64_t take(std::uint64_t granules, std::uint64_t step);
    std::uint64_t allocate_locked(std::uint64_t granules, std::uint64_t step);
    std::uint64_t grow_and_allocate(std::uint64_t granules, std::uint64_t alignment);

    ArenaOptions options_;
    std::byte* base_ = nullptr;
    std::uint64_t* live_ =
        nullptr;  // one bit per granule; written under the mutex, read without it
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace verbatim
