// Page marks record the objects of a graph that were met, in a hash of page numbers. One bit for
// each 16-byte granule says whether anything was met there. Each 64-byte block knows the newest run
// of objects in it; runs that share a block are a chain (PageMarks::Links, kept with each run).
// Strings, the most frequent objects of all, may be marked without a run (claim_unnamed). Direct
// marks replace the interval tree of Naos §3.1, because a shuffled or cyclic graph has as many
// intervals as objects. A look-up here costs a few loads for any shape. Pages inside one large
// object carry one mark for all. In an arena, granules that were not allocated when their page was
// first met cannot be claimed, so that one test says both. Threads: one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <verbatim/core/arena.hpp>

namespace verbatim::objects {

using Mark = std::uint32_t;  // the number of a run, from 1; 0: nothing met there

class PageMarks {
  public:
    static constexpr std::uint64_t kPageBytes = 4096;
    static constexpr std::uint64_t kGranuleBytes = 16;
    static constexpr std::uint64_t kGranules = kPageBytes / kGranuleBytes;
    static constexpr std::uint64_t kBlockBytes = 64;
    static constexpr std::uint64_t kGranulesPerBlock = kBlockBytes / kGranuleBytes;

    // The runs that were the newest ones before, in the first and in the last block of a run.
    struct Links {
        Mark first = 0;
        Mark last = 0;
    };
    // Granules of one page that are about to be marked.
    struct Piece {
        std::uint64_t address = 0;
        std::uint64_t granules = 0;
        Mark mark = 0;
        bool extends = false;  // the run `mark` reaches up to `address`
    };

    explicit PageMarks(const Arena& arena) : arena_(arena), slots_(kFirstSlots) {}

    // Forgets all marks; keeps the memory for the next graph.
    void clear() noexcept {
        std::fill(slots_.begin(), slots_.end(), Slot{});
        used_slots_ = used_pages_ = 0;
        cached_number_ = kNoPage;
        cached_ = nullptr;
    }

    // The newest run in the block of an address. 0 if nothing was met in its granule, or nothing in
    // the block has a run.
    Mark newest(std::uint64_t address) noexcept {
        const std::uint64_t number = address / kPageBytes;
        if (number != cached_number_) {
            const Slot* slot = find(number);
            if (slot->number != number) return 0;
            if (slot->whole != 0) return slot->whole;
            cache(number, slot->page);
        }
        const std::size_t at = granule(address);
        return (cached_->taken[at / 64] >> (at % 64) & 1) != 0
                   ? cached_->newest[at / kGranulesPerBlock]
                   : 0;
    }
    // Marks the granules of a piece and updates the links of its run. False, without an effect, if
    // one of them is marked or, in the arena, not allocated.
    [[gnu::always_inline]] bool claim(const Piece& piece, Links& links) {
        if (!claim_unnamed(piece.address, piece.granules)) return false;
        name(Span(piece.address, piece.granules), piece, links);
        return true;
    }
    // The same for granules that no run is to be found for.
    [[gnu::always_inline]] bool claim_unnamed(std::uint64_t address, std::uint64_t granules) {
        if (address / kPageBytes != cached_number_ && !open(address / kPageBytes)) return false;
        const Span span(address, granules);
        if (span.first / 64 != span.last / 64) return claim_words(span);
        const std::uint64_t bits = span.bits(span.first / 64);
        std::uint64_t& word = cached_->taken[span.first / 64];
        if ((word & bits) != 0) return false;
        word |= bits;
        return true;
    }
    // Is the page of the last claim in the arena?
    bool last_is_direct() const noexcept { return cached_->direct; }
    // Like claim(), without a test of the marks.
    void add(const Piece& piece, Links& links) {
        const std::uint64_t number = piece.address / kPageBytes;
        if (number != cached_number_ && !open(number)) split(number);
        const Span span(piece.address, piece.granules);
        set(span);
        name(span, piece, links);
    }
    // True if none of these granules of one page is marked.
    bool is_free(std::uint64_t address, std::uint64_t granules) {
        if (address / kPageBytes != cached_number_ && !open(address / kPageBytes)) return false;
        return is_free(Span(address, granules));
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
    static constexpr std::size_t kPagesPerBlock = 256;

    struct Slot {
        std::uint64_t number = kNoPage;
        Mark whole = 0;
        std::uint32_t page = 0;
    };
    struct Page {
        std::array<std::uint64_t, kGranules / 64> taken;         // one bit per granule
        bool direct;                                             // in the arena
        std::array<Mark, kGranules / kGranulesPerBlock> newest;  // run of each block, or 0
    };
    // Granules of one page as words and bits of Page::taken.
    struct Span {
        Span(std::uint64_t address, std::uint64_t granules) noexcept
            : first(granule(address)), last(first + static_cast<std::size_t>(granules) - 1) {}
        // The bits of the span in word `word`.
        std::uint64_t bits(std::size_t word) const noexcept {
            std::uint64_t mask = ~std::uint64_t{0};
            if (word == first / 64) mask &= ~std::uint64_t{0} << (first % 64);
            if (word == last / 64) mask &= ~std::uint64_t{0} >> (63 - last % 64);
            return mask;
        }
        std::size_t first, last;
    };

    bool is_free(const Span& span) const noexcept {
        for (std::size_t word = span.first / 64; word <= span.last / 64; ++word)
            if ((cached_->taken[word] & span.bits(word)) != 0) return false;
        return true;
    }
    void set(const Span& span) noexcept {
        for (std::size_t word = span.first / 64; word <= span.last / 64; ++word)
            cached_->taken[word] |= span.bits(word);
    }
    bool claim_words(const Span& span) noexcept {
        const bool free = is_free(span);
        if (free) set(span);
        return free;
    }
    // Makes the run of a piece the newest of its blocks.
    [[gnu::always_inline]] void name(const Span& span, const Piece& piece, Links& links) noexcept {
        const std::size_t first = span.first / kGranulesPerBlock,
                          last = span.last / kGranulesPerBlock;
        const Mark before_first = cached_->newest[first], before_last = cached_->newest[last];
        // The blocks that a run newly reaches hold no other run, but for the last one.
        if (piece.extends) {
            if (before_first != piece.mark || first != last) links.last = before_last;
        } else {
            links = {before_first, first != last ? before_last : 0};
        }
        for (std::size_t block = first; block <= last; ++block) cached_->newest[block] = piece.mark;
    }

    Slot* find(std::uint64_t number) noexcept {
        const std::size_t mask = slots_.size() - 1;
        // Fibonacci hashing: neighbouring pages must not cluster.
        std::size_t at = static_cast<std::size_t>(number * 0x9e3779b97f4a7c15u >> 32) & mask;
        while (slots_[at].number != number && slots_[at].number != kNoPage) at = (at + 1) & mask;
        return &slots_[at];
    }
    void cache(std::uint64_t number, std::uint32_t page) noexcept {
        cached_number_ = number;
        cached_ = &blocks_[page / kPagesPerBlock][page % kPagesPerBlock];
    }
    // Makes a page the cached one; false if it is marked as a whole.
    bool open(std::uint64_t number);
    // Makes a page that is marked as a whole one with a mark in each block, and the cached one.
    void split(std::uint64_t number);
    // Gives the slot of a page room for its marks, which are to be written, and caches the page.
    void add_page(Slot& slot);
    Slot* insert(std::uint64_t number);
    void grow();

    const Arena& arena_;
    std::uint64_t cached_number_ = kNoPage;
    Page* cached_ = nullptr;
    std::vector<Slot> slots_;
    std::size_t used_slots_ = 0;
    std::vector<std::unique_ptr<Page[]>> blocks_;
    std::size_t used_pages_ = 0;
};

}  // namespace verbatim::objects
