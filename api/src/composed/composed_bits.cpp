#include <verbatim/objects/composed/composed_bits.hpp>

#include <algorithm>
#include <cstring>

#include <verbatim/objects/composed/composed_map.hpp>

namespace verbatim::objects {

void ComposedBits::begin(std::span<const TypeKey* const>, std::uint64_t used) {
    const std::uint64_t words = used / ComposedCells::kGranule / 64 + 1;
    taken_.clear();
    std::uint64_t* const first = taken_.room_for(words);
    std::memset(first, 0, words * sizeof *first);
    taken_.commit(first + words);
    (void)claim(0, std::min(used, ComposedHead::kBytes));
}

// More than the bits of one word.
bool ComposedBits::claim_words(std::uint64_t first, std::uint64_t end) noexcept {
    const auto each = [&](auto&& call) {
        for (std::uint64_t at = first; at < end;) {
            const std::uint64_t bit = at % 64, count = std::min(64 - bit, end - at);
            call(taken_[at / 64], (~std::uint64_t{0} >> (64 - count)) << bit);
            at += count;
        }
    };
    std::uint64_t others = 0;
    each([&](std::uint64_t word, std::uint64_t mask) { others |= word & mask; });
    if (others == 0) each([](std::uint64_t& word, std::uint64_t mask) { word |= mask; });
    return others == 0;
}

}  // namespace verbatim::objects
