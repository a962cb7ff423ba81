// The arena words are the claims' words for the granules of an arena. They lie side by side, so
// that the place of a granule's word follows from its address, without a look into a directory.
// Those of a page count while it is in use. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/graph/claim_words.hpp>
#include <verbatim/objects/graph/image.hpp>

namespace verbatim::objects {

class ArenaWords {
  public:
    using Word = ClaimWords::Word;
    static constexpr std::uint64_t kPageBytes = 4096, kPageWords = kPageBytes / kImageGranule;

    explicit ArenaWords(const Arena& arena) noexcept : arena_(arena) {}
    ~ArenaWords();
    ArenaWords(const ArenaWords&) = delete;
    ArenaWords& operator=(const ArenaWords&) = delete;

    // For walks, in registers. It holds nothing before the first page is in use.
    struct View {
        std::uint64_t base = 0, bytes = 0;  // of the arena
        Word* words = nullptr;
        std::uint8_t* pages = nullptr;  // their states

        [[gnu::always_inline]] bool holds(std::uint64_t address) const noexcept {
            return address - base < bytes;
        }
        [[gnu::always_inline]] bool uses(std::uint64_t address) const noexcept {
            return (pages[(address - base) / kPageBytes] & kInUse) != 0;
        }
        // Of an address that it holds.
        [[gnu::always_inline]] Word* word(std::uint64_t address) const noexcept {
            return words + (address - base) / kImageGranule;
        }
        // The words of its page, or null: they are not in use.
        [[gnu::always_inline]] Word* find(std::uint64_t address) const noexcept {
            return uses(address) ? word(address / kPageBytes * kPageBytes) : nullptr;
        }
    };
    const View& view() const noexcept { return view_; }

    // The words of the page of `address`, which hold anything. Null: it is no page of the arena, or
    // the system refuses the addresses (ulimit -v).
    Word* use(std::uint64_t address) noexcept;
    // False: these are no words of its page.
    bool leave(std::uint64_t address, const Word* words) noexcept;
    // No page is in use. Gives memory back if the last graph needed little of it.
    void trim() noexcept;

  private:
    // States of a page: kUsable: stores into its words are possible.
    static constexpr std::uint8_t kInUse = 1, kHasMemory = 2, kUsable = 4;
    static constexpr std::uint64_t kPartPages = 1024;
    // 16 MiB of words.
    static constexpr std::uint64_t kKeptPages = std::uint64_t{16} << 10;

    void reserve() noexcept;
    bool make_usable(std::uint64_t page) noexcept;
    std::uint64_t words_bytes() const noexcept;

    const Arena& arena_;
    View view_;
    bool is_refused_ = false;
    std::uint64_t with_memory_ = 0;  // pages
    std::uint64_t used_ = 0;         // pages, since the last trim()
    std::uint64_t most_used_ = 0;    // by a graph, of late
};

}  // namespace verbatim::objects
