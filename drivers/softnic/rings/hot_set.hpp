// A hot set is a two-level bitmap of the queue pairs that one progress list looks at in each round.
// It lies in private memory. A bit stays set while its queue pair is busy, so that a busy queue
// pair costs no write; with none set a round is one load. Threads: set() and clear() any;
// for_each_hot() one at a time; add(), remove() and give_back() control path, one at a time. Places
// never move.
//
// The summary's bits are cleared by for_each_hot() alone, which looks at the column once more
// afterwards: set() writes the column before it reads the summary, so one of the two sees the
// other.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace verbatim::softnic {

class QueuePair;

class HotSet {
    static constexpr std::uint32_t kBits = 64, kRows = 16;
    struct Chunk {
        std::atomic<std::uint64_t> hot{0};
        std::array<std::atomic<QueuePair*>, kBits> pairs{};
    };
    using Row = std::array<std::atomic<Chunk*>, kBits>;

  public:
    static constexpr std::uint32_t kMost = kRows * kBits * kBits;

    // Where a queue pair is in the set; none: nowhere.
    class Place {
      public:
        Place() = default;
        explicit operator bool() const noexcept { return chunk_ != nullptr; }

      private:
        friend class HotSet;
        Chunk* chunk_ = nullptr;
        std::uint32_t number_ = 0;
    };

    HotSet() = default;
    HotSet(const HotSet&) = delete;
    HotSet& operator=(const HotSet&) = delete;
    ~HotSet();

    // Throws Error(out_of_memory) where kMost are in it.
    Place add(QueuePair& pair);
    // A round that has begun may still come to the queue pair, and set its bit.
    void remove(const Place& place) noexcept;
    // When that round has ended: the place may be another one's.
    void give_back(const Place& place) noexcept;

    void set(const Place& place) noexcept {
        if ((place.chunk_->hot.load() & bit_of(place)) == 0)
            place.chunk_->hot.fetch_or(bit_of(place));
        if ((summary_.load() & summary_bit_of(place)) == 0)
            summary_.fetch_or(summary_bit_of(place));
    }
    void clear(const Place& place) noexcept { place.chunk_->hot.fetch_and(~bit_of(place)); }
    // Each queue pair's bit.
    void set_all() noexcept;

    // Returns how many there were.
    template <class Function>
    std::uint32_t for_each_hot(Function&& function) noexcept {
        std::uint32_t count = 0;
        for (std::uint64_t word = summary_.load(); word != 0; word &= word - 1) {
            const int column = std::countr_zero(word);
            std::uint32_t found = visit_hot(column, function);
            if (found == 0 && !forget(column)) found = visit_hot(column, function);
            count += found;
        }
        return count;
    }
    template <class Function>
    void for_each(Function&& function) noexcept {
        for (std::uint32_t column = 0; column < kBits; ++column)
            for (Chunk* const chunk : Column(*this, static_cast<int>(column)))
                visit(*chunk, ~std::uint64_t{0}, function);
    }

  private:
    // The chunks that share a bit of the summary: the first of them, and beyond 4,096 queue pairs
    // more.
    class Column {
      public:
        Column(const HotSet& set, int column) noexcept : set_(set), column_(column) {}
        class Iterator {
          public:
            Iterator(const Column& column, std::uint32_t row) noexcept : of_(column), row_(row) {}
            Chunk* operator*() const noexcept { return of_.at(row_); }
            Iterator& operator++() noexcept { return ++row_, *this; }
            bool operator!=(const Iterator& /*end*/) const noexcept {
                return row_ != kRows && of_.at(row_) != nullptr;
            }

          private:
            const Column& of_;
            std::uint32_t row_;
        };
        Iterator begin() const noexcept { return {*this, 0}; }
        Iterator end() const noexcept { return {*this, kRows}; }

      private:
        Chunk* at(std::uint32_t row) const noexcept {
            const Row* const chunks = set_.rows_[row].load(std::memory_order_acquire);
            return chunks == nullptr ? nullptr
                                     : (*chunks)[static_cast<std::size_t>(column_)].load(
                                           std::memory_order_acquire);
        }
        const HotSet& set_;
        int column_;
    };

    template <class Function>
    static std::uint32_t visit(Chunk& chunk, std::uint64_t bits, Function&& function) noexcept {
        std::uint32_t count = 0;
        for (; bits != 0; bits &= bits - 1) {
            QueuePair* const pair =
                chunk.pairs[static_cast<std::size_t>(std::countr_zero(bits))].load(
                    std::memory_order_acquire);
            if (pair == nullptr) continue;
            ++count;
            function(*pair);
        }
        return count;
    }
    template <class Function>
    std::uint32_t visit_hot(int column, Function&& function) noexcept {
        std::uint32_t count = 0;
        for (Chunk* const chunk : Column(*this, column))
            count += visit(*chunk, chunk->hot.load(), function);
        return count;
    }
    // Takes an empty column's bit out of the summary. False: one was set there meanwhile.
    bool forget(int column) noexcept {
        const std::uint64_t bit = std::uint64_t{1} << column;
        summary_.fetch_and(~bit);
        for (Chunk* const chunk : Column(*this, column))
            if (chunk->hot.load() != 0) return summary_.fetch_or(bit), false;
        return true;
    }
    static std::uint64_t bit_of(const Place& place) noexcept {
        return std::uint64_t{1} << place.number_ % kBits;
    }
    static std::uint64_t summary_bit_of(const Place& place) noexcept {
        return std::uint64_t{1} << place.number_ / kBits % kBits;
    }
    Chunk& chunk_of(std::uint32_t number);

    std::atomic<std::uint64_t> summary_{0};
    std::array<std::atomic<Row*>, kRows> rows_{};
    std::vector<std::uint32_t> free_;  // numbers that were given back
    std::uint32_t used_ = 0;           // numbers ever given
};

}  // namespace verbatim::softnic
