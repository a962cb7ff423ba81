// Which objects of a graph were met where: a map from addresses to runs, with a 32-bit mark per
// 16-byte granule of every page the graph touches, found through a hash of page numbers. Direct
// marks instead of the interval tree of Naos §3.1, because a shuffled or cyclic graph has as many
// intervals as objects: a look-up here costs two loads whatever the shape. Pages inside one large
// object carry one mark for all their granules. Threads: one.
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

    // Forgets all marks; keeps the memory for the next graph.
    void clear() noexcept {
        std::fill(slots_.begin(), slots_.end(), Slot{});
        used_slots_ = used_pages_ = 0;
        cached_number_ = kNoPage;
        cached_marks_ = nullptr;
    }

    // The mark at an address.
    Mark at(std::uint64_t address) noexcept {
        const std::uint64_t number = address / kPageBytes;
        if (number == cached_number_) return cached_marks_[granule(address)];
        const Slot* slot = find(number);
        if (slot->number != number) return 0;
        if (slot->whole != 0) return slot->whole;
        cache(number, slot->page);
        return cached_marks_[granule(address)];
    }

    // The marks of an address's page, made if need be; null for a page marked as a whole.
    Mark* page_marks(std::uint64_t address) {
        const std::uint64_t number = address / kPageBytes;
        if (number == cached_number_) return cached_marks_;
        return open(number);
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
    Mark* open(std::uint64_t number);
    Slot* insert(std::uint64_t number);
    void grow();

    std::uint64_t cached_number_ = kNoPage;
    Mark* cached_marks_ = nullptr;
    std::vector<Slot> slots_;
    std::size_t used_slots_ = 0;
    std::vector<std::unique_ptr<Page[]>> blocks_;
    std::size_t used_pages_ = 0;
};

}  // namespace verbatim::objects
