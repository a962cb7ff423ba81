// The claims say of every granule of the sender's memory which granule of the image holds its copy.
// They have a word for each 16 bytes: one load tells new from seen. The words of the arena lie side
// by side (arena_words.hpp). A radix directory leads to the others: it has a page of words for each
// 4 KiB of memory that objects were met in. Pages that lie inside one large object have no words
// but the number of their first granule. Objects that do not start on a granule, or share one with
// others, lie apart: their pages have fine words, for each 4 bytes one. The few that fit no such
// words are in a table.
//
// clear() costs what was touched. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/graph/arena_words.hpp>
#include <verbatim/objects/graph/claim_words.hpp>
#include <verbatim/objects/graph/image.hpp>

namespace verbatim::objects {

class Claims {
  public:
    using Word = ClaimWords::Word;
    static constexpr Word kFree = ClaimWords::kFree, kShared = ClaimWords::kShared;
    static constexpr std::uint64_t kPageBytes = ArenaWords::kPageBytes,
                                   kPageGranules = ArenaWords::kPageWords;

    // Granules of `arena` that are not allocated cannot be claimed.
    explicit Claims(const Arena& arena);

    // The words of the page of `address`, or null: there are none yet, or it has none.
    [[gnu::always_inline]] Word* words(std::uint64_t address) noexcept {
        const ArenaWords::View& arena = arena_words_.view();
        if (arena.holds(address)) return arena.find(address);
        const std::uint64_t page = address / kPageBytes;
        if (page == last_page_) return last_words_;
        const Region* const region = recent_regions_[page / kRegionPages % kRecentRegions];
        if (region == nullptr || region->number != page / kRegionPages) return nullptr;
        return region->pages[page % kRegionPages].words;
    }
    // The same, and makes them where nothing was met in that page yet.
    [[gnu::always_inline]] Word* words_or_make(std::uint64_t address) {
        Word* const words = this->words(address);
        if (words == nullptr) return make_words(address);
        if (arena_words_.view().holds(address)) return words;
        last_page_ = address / kPageBytes;
        last_words_ = words;
        return words;
    }
    const ArenaWords::View& arena_words() const noexcept { return arena_words_.view(); }
    static std::uint64_t granule(std::uint64_t address) noexcept {
        return address / kImageGranule % kPageGranules;
    }

    // The word of the granule of `address`.
    Word word_at(std::uint64_t address) noexcept;

    // Where a byte lies in the image, if its object was claimed. Where two objects share a granule,
    // the place may be behind the end of the first.
    bool find(std::uint64_t address, std::uint64_t& offset) noexcept;

    enum class Found : std::uint8_t { free, seen, covers, freed };
    struct Answer {
        Found found = Found::free;
        std::uint64_t offset = 0;  // seen: of the address in the image
    };
    // What is known of [address, address + bytes) beside the word of its first granule, which is
    // another object's if at all. Seen: it lies in an object that is known apart. Covers: some of
    // it was claimed.
    Answer look_up(std::uint64_t address, std::uint64_t bytes);
    // Claims what look_up() has called free: it is now at `offset` of the image. The tag is that of
    // a single object's type.
    void claim(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset, Word tag = 0);

    void clear() noexcept;

  private:
    // A page of words, or the word of the first granule of a page that one object covers.
    struct Page {
        Word* words = nullptr;
        Word* fine = nullptr;  // where something lies apart
        Word first = kFree;
    };
    static constexpr std::uint64_t kFineBytes = 4, kFineWords = kPageBytes / kFineBytes;
    static constexpr std::size_t kRecentRegions = 64;
    static constexpr std::uint64_t kRegionPages = 512, kNoPage = ~std::uint64_t{0};
    struct Region {
        std::uint64_t number = 0;
        std::array<Page, kRegionPages> pages{};
    };
    struct Apart {
        std::uint64_t end = 0;
        std::uint64_t offset = 0;
    };

    Word* make_words(std::uint64_t address);
    Word* new_words();
    Word* new_fine_words();
    Region& region_of(std::uint64_t page);
    Page* find_page(std::uint64_t page) noexcept;
    void fill(Word* words, std::uint64_t first, std::uint64_t count, Word word);
    Answer look_apart(std::uint64_t address, std::uint64_t bytes);
    Answer look_in_table(std::uint64_t address, std::uint64_t bytes) const;
    bool page_is_untouched(std::uint64_t page) noexcept;
    bool is_freed(std::uint64_t address, std::uint64_t bytes) const noexcept {
        const auto* first = reinterpret_cast<const void*>(address);
        return arena_.contains(first) && !arena_.is_allocated(first, bytes);
    }
    void claim_apart(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset);
    void claim_page(std::uint64_t page, Word first);
    // Nothing in that page was met; what is not allocated of it is marked.
    void begin_words(std::uint64_t address, Word* words) const noexcept;

    const Arena& arena_;
    ArenaWords arena_words_;
    std::uint64_t last_page_ = kNoPage;
    Word* last_words_ = nullptr;
    std::unordered_map<std::uint64_t, std::unique_ptr<Region>> regions_;
    std::array<Region*, kRecentRegions> recent_regions_{};
    std::vector<std::pair<Region*, std::uint32_t>> touched_;  // pages with something in them
    std::vector<Word*> spare_;                                // pages of words, not in use
    std::vector<Word*> spare_fine_;                           // pages of fine words
    std::vector<std::unique_ptr<Word[]>> blocks_;             // that both lie in
    bool has_apart_ = false;
    std::map<std::uint64_t, Apart> apart_;  // by start: what fits no fine words
};

// Is nothing known of any of these granules?
template <std::uint64_t Granules>
[[gnu::always_inline]] inline bool are_free(const Claims::Word* words) noexcept {
    Claims::Word any = 0;
    for (std::uint64_t i = 0; i < Granules; ++i) any |= words[i];
    return any == Claims::kFree;
}

}  // namespace verbatim::objects
