// The visited table of the general floor: one word for each granule of the span of addresses in
// which the sender's objects lie. It is built before the measurement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "../memory/warm_memory.hpp"

namespace bench_graph {

inline constexpr std::size_t kGranule = verbatim::Arena::kGranuleBytes;

// A view: walks keep a copy of it in registers.
class VisitedView {
  public:
    VisitedView(std::uint32_t* words, std::uintptr_t base, std::uint32_t oldest)
        : words_(words), base_(base), oldest_(oldest) {}

    // Where in the image what `object` points at lies, in bytes; 0: not there yet.
    [[gnu::always_inline]] std::uint64_t find(const void* object) const noexcept {
        const auto address = reinterpret_cast<std::uintptr_t>(object);
        const std::uint32_t word = words_[address / kGranule - base_];
        return word <= oldest_ ? 0 : std::uint64_t{word - oldest_} * kGranule + address % kGranule;
    }
    [[gnu::always_inline]] void enter(const void* object, std::size_t bytes,
                                      std::uint64_t place) const noexcept {
        const auto address = reinterpret_cast<std::uintptr_t>(object);
        const std::size_t first = address / kGranule - base_;
        const std::size_t end = (address + bytes + kGranule - 1) / kGranule - base_;
        auto word = static_cast<std::uint32_t>(oldest_ + place / kGranule);
        for (std::size_t granule = first; granule < end; ++granule) words_[granule] = word++;
    }
    [[gnu::always_inline]] void prefetch(const void* object) const noexcept {
        __builtin_prefetch(words_ + (reinterpret_cast<std::uintptr_t>(object) / kGranule - base_),
                           1);
    }

  private:
    std::uint32_t* words_;
    std::uintptr_t base_;  // in granules
    std::uint32_t oldest_;
};

class Visited {
  public:
    explicit Visited(std::span<const std::byte> extent)
        : base_(reinterpret_cast<std::uintptr_t>(extent.data()) / kGranule),
          count_(extent.size() / kGranule + 2),
          block_(count_ * sizeof(std::uint32_t)) {
        clear();
    }
    VisitedView view() const noexcept { return {words(), base_, oldest_}; }
    // Forgets everything. Words of earlier images are below those of the next one, so that nothing
    // is cleared but once in many images.
    void restart(std::uint64_t image_bytes) noexcept {
        oldest_ += static_cast<std::uint32_t>(image_bytes / kGranule) + 1;
        if (oldest_ > std::uint32_t{1} << 31) clear();
    }

  private:
    std::uint32_t* words() const noexcept {
        return reinterpret_cast<std::uint32_t*>(block_.data());
    }
    void clear() noexcept {
        std::fill_n(words(), count_, 0u);
        oldest_ = 0;
    }

    std::uintptr_t base_;  // in granules
    std::size_t count_;
    WarmBlock block_;
    std::uint32_t oldest_ = 0;
};

}  // namespace bench_graph
