// Watched ranges are the page ranges of one cache, in slots that the watch's thread reads without a
// lock: it may not wait for a thread that allocates, since that one may wait for it. Memory is
// taken at construction only. Threads: the owner's lock guards put(), drop() and their slots; the
// rest may be called by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace verbatim {

// Whole pages: [first, end).
struct PageRange {
    static constexpr std::uintptr_t kPageBytes = 4096;
    std::uintptr_t first = 0, end = 0;

    // Those that hold some of these bytes. Their end must be an address.
    static PageRange around(std::uintptr_t start, std::size_t bytes) noexcept {
        return {start & ~(kPageBytes - 1), (start + bytes + kPageBytes - 1) & ~(kPageBytes - 1)};
    }
    std::size_t bytes() const noexcept { return end - first; }
    bool covers(const PageRange& other) const noexcept {
        return first <= other.first && other.end <= end;
    }
    bool overlaps(const PageRange& other) const noexcept {
        return first < other.end && other.first < end;
    }
};

class WatchedRanges {
  public:
    explicit WatchedRanges(std::size_t slots) : slots_(new Slot[slots]), count_(slots) {}
    WatchedRanges(const WatchedRanges&) = delete;
    WatchedRanges& operator=(const WatchedRanges&) = delete;

    // Before the kernel is asked to tell of these pages: no event of theirs is missed.
    void put(std::size_t slot, const PageRange& pages) noexcept {
        Slot& one = slots_[slot];
        one.end.store(0);
        one.gone.store(false);
        one.first.store(pages.first);
        one.end.store(pages.end);
    }
    void drop(std::size_t slot) noexcept { slots_[slot].end.store(0); }
    // Some of its pages are not those any more that were put there. Stays so until the next put().
    bool is_gone(std::size_t slot) const noexcept { return slots_[slot].gone.load(); }
    // Slots may have gone since the last call.
    bool take_news() noexcept { return news_.exchange(false); }

    // In the watch's thread: the pages are others now. A slot that changes meanwhile may be marked
    // without need, which costs a registration.
    void mark(const PageRange& pages) noexcept {
        for (std::size_t i = 0; i < count_; ++i) {
            if (!range(i).overlaps(pages)) continue;
            slots_[i].gone.store(true);
            news_.store(true);
        }
    }
    // A slot but `own` has some of these pages, unchanged.
    bool uses(const PageRange& pages, const std::atomic<bool>* own) const noexcept {
        for (std::size_t i = 0; i < count_; ++i)
            if (&slots_[i].gone != own && !is_gone(i) && range(i).overlaps(pages)) return true;
        return false;
    }
    // The slot's identity among those of all caches.
    const std::atomic<bool>* identity(std::size_t slot) const noexcept {
        return &slots_[slot].gone;
    }

  private:
    struct Slot {
        std::atomic<std::uintptr_t> first{0}, end{0};
        std::atomic<bool> gone{false};
    };
    PageRange range(std::size_t slot) const noexcept {
        const std::uintptr_t end = slots_[slot].end.load();
        return {slots_[slot].first.load(), end};
    }

    std::unique_ptr<Slot[]> slots_;
    std::size_t count_;
    std::atomic<bool> news_{false};
};

}  // namespace verbatim
