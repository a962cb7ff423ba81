// The bookkeeping of an arena: which granules of a reservation are free, and where the next ones
// go. Works on granule numbers only and keeps all its state outside the memory it manages, because
// peers may write there. Threads: the owner serialises all calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "free_queue.hpp"

namespace verbatim {

// Placement policy, in this order:
// 1. small requests reuse a freed block of their exact size, oldest first, so that objects freed in
// traversal
//    order come back in that order;
// 2. everything else is cut from the front of the current run, so that neighbours in allocation
// order are
//    neighbours in memory;
// 3. large requests that do not fit the run take the best fitting hole; small ones start a new run
// in the
//    largest hole.
class GranuleHeap {
  public:
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    static constexpr std::uint64_t kSmall =
        64;  // granules; larger free blocks are merged with neighbours

    // The first of `granules` consecutive ones, now taken; kNone if the populated part has no room.
    // `alignment` is in granules, a power of two.
    std::uint64_t allocate(std::uint64_t granules, std::uint64_t alignment);
    // Frees granules that are taken; any part of an allocation may be freed. Throws std::bad_alloc:
    // they stay taken for ever.
    void release(std::uint64_t first, std::uint64_t granules);
    // Granules [0, populated) may now be used.
    void extend(std::uint64_t populated);
    // How far `populated` must reach for allocate() to succeed.
    std::uint64_t populated_for(std::uint64_t granules, std::uint64_t alignment) const noexcept;
    // Merges the small free blocks; true if that was worth a new try.
    bool consolidate();

    std::uint64_t taken() const noexcept { return taken_; }
    std::uint64_t populated() const noexcept { return populated_; }
    // As many small blocks were freed since the last consolidate() as the next one has to look at,
    // or a quarter of the memory is in them. So its time is in proportion to that of the frees, and
    // small blocks between holes do not let the memory grow without end.
    bool is_merge_due() const noexcept {
        return freed_small_ > unmerged_ + holes_.size() || small_free_ > populated_ / 4;
    }

  private:
    struct Run {
        std::uint64_t next = 0, end = 0;
    };
    using Holes = std::map<std::uint64_t, std::uint64_t>;  // first granule -> length

    std::uint64_t take_from_run(std::uint64_t granules, std::uint64_t alignment);
    std::uint64_t take_from_hole(std::uint64_t granules, std::uint64_t alignment);
    bool start_run_in_largest_hole(std::uint64_t granules, std::uint64_t alignment);
    void add_free(std::uint64_t first, std::uint64_t granules);
    void add_hole(std::uint64_t first, std::uint64_t granules);
    void erase_hole(Holes::iterator hole);
    void forget_all_free() noexcept;

    std::uint64_t populated_ = 0, taken_ = 0;
    std::uint64_t small_free_ = 0;   // granules that only a request of their exact size can have
    std::uint64_t freed_small_ = 0;  // blocks since the last consolidate(), which left `unmerged_`
    std::uint64_t unmerged_ = 0;
    Run run_;
    std::array<FreeQueue, kSmall + 1> small_;
    Holes holes_;
    std::set<std::pair<std::uint64_t, std::uint64_t>> holes_by_length_;  // (length, first granule)
};

}  // namespace verbatim
