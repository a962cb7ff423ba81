// Composed bits say which granules of a composed message have an owner. They do for graphs in which
// no two references lead to the same object. Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/composed/composed_cells.hpp>
#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

class ComposedBits {
  public:
    // As ComposedMap.
    void begin(std::span<const TypeKey* const> types, std::uint64_t used);
    [[gnu::always_inline]] bool claim(std::uint64_t offset, std::uint64_t bytes) noexcept {
        constexpr std::uint64_t kGranule = ComposedCells::kGranule;
        if (offset % kGranule != 0) return false;
        const std::uint64_t first = offset / kGranule, bit = first % 64;
        const std::uint64_t count = (bytes + kGranule - 1) / kGranule;
        if (bit + count > 64) return claim_words(first, first + count);
        const std::uint64_t mask = (~std::uint64_t{0} >> (64 - count)) << bit;
        std::uint64_t& word = taken_[first / 64];
        if ((word & mask) != 0) return false;
        word |= mask;
        return true;
    }
    // Of any value.
    void fetch(std::uint64_t offset) const noexcept {
        __builtin_prefetch(
            reinterpret_cast<const void*>(reinterpret_cast<std::uint64_t>(taken_.begin()) +
                                          offset / ComposedCells::kGranule / 8),
            1);
    }

  private:
    bool claim_words(std::uint64_t first, std::uint64_t end) noexcept;

    Column<std::uint64_t> taken_;
};

}  // namespace verbatim::objects
