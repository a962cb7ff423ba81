// The live bits of an arena: one for each granule, set while it belongs to an allocation. Threads:
// any. Neighbouring granules may belong to different threads, so parts of a word change atomically,
// unless the caller is alone; a whole word belongs to one allocation.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace verbatim {

class LiveBits {
  public:
    explicit LiveBits(std::uint64_t* words) noexcept : words_(words) {}

    // Alone: no other thread changes bits meanwhile, which locked instructions cost.
    enum class Writers : bool { one, many };

    bool all(std::uint64_t first, std::uint64_t granules) const noexcept {
        return each(first, granules, [](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) {
            return (word.load(std::memory_order_relaxed) & mask) == mask;
        });
    }
    void set(std::uint64_t first, std::uint64_t granules, Writers writers) const noexcept {
        each(first, granules, [=](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) {
            if (writers == Writers::one || mask == ~std::uint64_t{0})
                word.store(word.load(std::memory_order_relaxed) | mask, std::memory_order_relaxed);
            else
                word.fetch_or(mask, std::memory_order_relaxed);
            return true;
        });
    }
    // False, and nothing done, if one of them is not set.
    bool clear(std::uint64_t first, std::uint64_t granules, Writers writers) const noexcept {
        if (!all(first, granules)) return false;
        return each(first, granules, [=](std::atomic_ref<std::uint64_t> word, std::uint64_t mask) {
            if (writers == Writers::one || mask == ~std::uint64_t{0}) {
                word.store(word.load(std::memory_order_relaxed) & ~mask, std::memory_order_relaxed);
                return true;
            }
            return (word.fetch_and(~mask, std::memory_order_relaxed) & mask) == mask;
        });
    }

  private:
    // Calls f(word, mask) for the words that hold [first, first + granules), until it returns
    // false.
    template <class F>
    bool each(std::uint64_t first, std::uint64_t granules, F f) const noexcept {
        while (granules != 0) {
            const std::uint64_t bit = first % 64, count = std::min(granules, 64 - bit);
            const std::uint64_t ones =
                count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
            if (!f(std::atomic_ref(words_[first / 64]), ones << bit)) return false;
            first += count;
            granules -= count;
        }
        return true;
    }

    std::uint64_t* words_;
};

}  // namespace verbatim
