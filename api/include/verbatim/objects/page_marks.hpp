// Which objects of a graph were met where: a map from addresses to runs, with a 32-bit mark per
// 16-byte granule of every page the graph touches, found through a hash of page numbers. Direct
// marks instead of the interval tree of Naos §3.1, because a shuffled or cyclic graph has as many
// intervals as objects: a look-up here costs two loads whatever the shape. Pages inside one large
// object carry one mark for all their granules. Forgetting all marks is raising the number below
// which they do not count. Threads: one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace verbatim::objects {

using Mark = std::uint32_t;  // 0: nothing met there

class PageMarks {
  public:
    static constexpr std::uint64_t kPageBytes = 4096;
    static constexpr std::uint64_t kGranuleBytes = 16;
    static constexpr std::uint64_t kGranules = kPageBytes / kGranuleBytes;

    PageMarks() : slots_(kFirstSlots) {}

    static constexpr Mark kLargest = Mark{1} << 30;
    // May be set on any mark; means whatever the owner likes.
    static constexpr Mark kFlag = Mark{1} << 31;

    // Forgets all marks, none of which was above `largest`; keeps the memory for the next graph.
    void clear(Mark largest) noexcept {
        std::fill(slots_.begin(), slots_.end(), Slot{});
        used_slots_ = used_pages_ = 0;
        cached_number_ = kNoPage;
        cached_marks_ = nullptr;
        forgotten_ += std::min(largest, kLargest);
        if (forgotten_ >= kLargest) wipe();
    }

    // The mark at an address.
    Mark at(std::uint64_t address) noexcept {
        const std::uint64_t number = address / kPageBytes;
        if (number != cached_number_) {
            const Slot* slot = find(number);
            if (slot->number != number) return 0;
            if (slot->whole != 0) return slot->whole;
            cache(number, slot->page);
        }
        return of(cached_marks_[granule(address)]);
    }
    // Sets a mark; not in a page marked as a whole.
    void set(std::uint64_t address, Mark mark) {
        if (address / kPageBytes != cached_number_) open(address / kPageBytes);
        cached_marks_[granule(address)] = mark + forgotten_;
    }
    // Marks all granules of [address, address + granules * 16), which lie in one page, if none of
    // them is marked; false and nothing done otherwise.
    [[gnu::always_inline]] bool claim(std::uint64_t address, std::uint64_t granules, Mark mark) {
        if (address / kPageBytes != cached_number_ && !open(address / kPageBytes)) return false;
        Mark* const first = cached_marks_ + granule(address);
        if (!none_counts(first, granules)) return false;
        const Mark stored = mark + forgotten_;
        for (std::uint64_t i = 0; i < granules; ++i) first[i] = stored;
        return true;
    }
    // True if none of these granules of one page is marked.
    bool is_free(std::uint64_t address, std::uint64_t granules) {
        if (address / kPageBytes != cached_number_ && !open(address / kPageBytes)) return false;
        return none_counts(cached_marks_ + granule(address), granules);
    }
    static std::size_t granule(std::uint64_t address) noexcept {
        return static_cast<std::size_t>(address / kGranuleBytes % kGranules);
    }

    // True if nothing was ever marked in the page of an address.
    bool page_is_untouched(std::uint64_t address) noexcept {
        const std::uint64_t number = address / kPageBytes;
        return find(number)->number != number;
    }
    // Marks all granules of an untouched page.
    void mark_page(std::uint64_t address, Mark mark) { insert(address / kPageBytes)->whole = mark; }

  private:
    static constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
    static constexpr std::size_t kFirstSlots = 1024;
    static constexpr std::size_t kPagesPerBlock = 64;  // 64 KiB of marks

    struct Slot {
        std::uint64_t number = kNoPage;
        Mark whole = 0;
        std::uint32_t page = 0;
    };
    using Page = std::array<Mark, kGranules>;

    Slot* find(std::uint64_t number) noexcept {
        const std::size_t mask = slots_.size() - 1;
        // Fibonacci hashing: neighbouring pages must not cluster.
        std::size_t at = static_cast<std::size_t>(number * 0x9e3779b97f4a7c15u >> 32) & mask;
        while (slots_[at].number != number && slots_[at].number != kNoPage) at = (at + 1) & mask;
        return &slots_[at];
    }
    void cache(std::uint64_t number, std::uint32_t page) noexcept {
        cached_number_ = number;
        cached_marks_ = blocks_[page / kPagesPerBlock][page % kPagesPerBlock].data();
    }
    Mark of(Mark stored) const noexcept {
        return (stored & ~kFlag) > forgotten_ ? stored - forgotten_ : 0;
    }
    // Without a branch per granule, so that compilers use vectors.
    [[gnu::always_inline]] bool none_counts(const Mark* first, std::uint64_t count) const noexcept {
        Mark largest = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            // Signed compares are what baseline x86-64 has vectors for; without the flag marks are
            // positive.
            const auto one = static_cast<std::int32_t>(first[i] & ~kFlag);
            largest |= one > static_cast<std::int32_t>(forgotten_) ? 1u : 0u;
        }
        return largest == 0;
    }
    // Makes a page the cached one; false if it is marked as a whole.
    bool open(std::uint64_t number);
    void wipe() noexcept;
    Slot* insert(std::uint64_t number);
    void grow();

    std::uint64_t cached_number_ = kNoPage;
    Mark* cached_marks_ = nullptr;
    Mark forgotten_ = 0;  // stored marks up to this one do not count
    std::vector<Slot> slots_;
    std::size_t used_slots_ = 0;
    std::vector<std::unique_ptr<Page[]>> blocks_;
    std::size_t used_pages_ = 0;
};

}  // namespace verbatim::objects
