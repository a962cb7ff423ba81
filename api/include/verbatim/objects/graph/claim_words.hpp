// A claim word says of one granule of the sender's memory that it is free, or which granule of the
// image holds its copy. The first word of a single object also says the type, if that is one of the
// first of the closure. So a look at one word tells that a pointer leads to the start of a whole
// object of its type. Threads: constants and functions without state.
#pragma once

#include <cstdint>

#include <verbatim/objects/graph/image.hpp>

namespace verbatim::objects {

struct ClaimWords {
    using Word = std::uint32_t;
    static constexpr Word kFree = 0;
    static constexpr Word kShared = 0xfffffffe;  // of objects that lie apart
    static constexpr Word kFreed = 0xffffffff;   // arena memory that is not allocated

    static constexpr bool names_place(Word word) noexcept {
        return word != kFree && word < kShared;
    }
    // What such a word says of the place of `address`, if its object reaches so far.
    static constexpr std::uint64_t offset_of(Word word, std::uint64_t address) noexcept {
        const Word granule = word < kFirstTag ? word : word & kGranule;
        return (std::uint64_t{granule} - 1) * kImageGranule + address % kImageGranule;
    }
    // Of a granule whose copy is at `offset`. Those behind it have the numbers that follow.
    static constexpr Word plain(std::uint64_t offset) noexcept {
        return static_cast<Word>(offset / kImageGranule + 1);
    }

    // A tag is a type in the upper bits of a word. Zero: that type has none.
    static constexpr Word tag_of(std::uint64_t number) noexcept {
        return number <= kTags ? kFirstTag + static_cast<Word>(number - 1) * (kGranule + 1) : 0;
    }
    // Places behind the first 4 GiB have no room for a tag.
    static constexpr Word tagged(Word plain, Word tag) noexcept {
        return plain < kMostTagged ? plain | tag : plain;
    }
    // Does one object of the type of `tag` start there? False: the word does not say so.
    template <Word Tag>
    [[gnu::always_inline]] static constexpr bool says_start_of(Word word) noexcept {
        return Tag != 0 && word < kShared && (word & ~kGranule) == Tag;
    }

  private:
    static constexpr Word kGranule = 0x0fffffff;
    // Plain words are less: an image is at most 2^31 granules long, and a walk notices that soon.
    static constexpr Word kFirstTag = 0x90000000;
    static constexpr Word kMostTagged = kShared & kGranule;
    static constexpr std::uint64_t kTags = 7;
    static_assert(kMaxImageBytes / kImageGranule < kFirstTag);
};

}  // namespace verbatim::objects
