// Composed cells say of each granule of a composed message whether it is taken, and which type
// starts in it. One load answers both. Threads: one at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbatim::objects {

using ComposedCell = std::uint16_t;

// What a reference leads to: objects that nothing has led to yet, the same as before, or others.
enum class ComposedMet : std::uint8_t { fresh, known, taken };

// A view: walks keep a copy of it in registers.
struct ComposedCells {
    // Not kImageGranule: std::allocate_shared() has its objects behind 24 bytes.
    static constexpr std::uint64_t kGranule = 8;
    // In the granule lies a part of an object, or an object that one reference leads to at most.
    // Other cells are zero, which is free, or the number of the type that starts there.
    static constexpr ComposedCell kTaken = 0x8000;
    // Taken cells behind the last one. Short objects that reach out of the message meet them.
    static constexpr std::uint64_t kSpare = 8;

    template <class E>
    static constexpr std::uint64_t kCount = (sizeof(E) + kGranule - 1) / kGranule;
    template <class E>
    static constexpr bool kIsShort = kCount<E> <= kSpare;

    ComposedCell* first = nullptr;
    std::uint64_t granules = 0;  // whole ones of the message

    // The granule that starts at a distance from the start of the message. Where none starts, it is
    // a higher number than any granule has.
    [[gnu::always_inline]] static std::uint64_t granule_at(std::uint64_t distance) noexcept {
        static_assert(kGranule == 8);
        return std::rotr(distance, 3);
    }

    // A short object that starts in that granule. Takes its cells if they are free. `number`: of
    // its type, or kTaken.
    template <class E>
    [[gnu::always_inline]] ComposedMet meet(std::uint64_t granule,
                                            ComposedCell number) const noexcept {
        static_assert(kIsShort<E>);
        ComposedCell* const cell = first + granule;
        if (any_of<kCount<E>>(cell) != 0)
            return *cell == number && number != kTaken ? ComposedMet::known : ComposedMet::taken;
        take<kCount<E>>(cell, number);
        return ComposedMet::fresh;
    }

    // So many cells of one owner, which may be none: most texts and arrays have no more. Takes them
    // if they are free.
    static constexpr std::uint64_t kFew = 16;
    [[gnu::always_inline]] static bool take_few(ComposedCell* cell, std::uint64_t count) noexcept {
        if (count >= 8) return take_ends<Eight>(cell, count);
        if (count >= 4) return take_ends<std::uint64_t>(cell, count);
        if (count >= 2) return take_ends<std::uint32_t>(cell, count);
        return count == 0 || take_ends<ComposedCell>(cell, count);
    }

  private:
    __extension__ typedef unsigned __int128 Eight;

    // Between one and two words of cells: two words may overlap.
    template <class Word>
    [[gnu::always_inline]] static bool take_ends(ComposedCell* cell, std::uint64_t count) noexcept {
        ComposedCell* const last = cell + count - sizeof(Word) / sizeof *cell;
        if ((load<Word>(cell) | load<Word>(last)) != 0) return false;
        constexpr Word kAll = static_cast<Word>(static_cast<Word>(~Word{0}) / 0xffff * kTaken);
        std::memcpy(cell, &kAll, sizeof kAll);
        std::memcpy(last, &kAll, sizeof kAll);
        return true;
    }
    // Words do not reach beyond the object's cells: a load that covers a part of the last store
    // would wait for it.
    template <std::uint64_t N>
    [[gnu::always_inline]] static std::uint64_t any_of(const ComposedCell* cell) noexcept {
        if constexpr (N >= 4)
            return load<std::uint64_t>(cell) | any_of<N - 4>(cell + 4);
        else if constexpr (N >= 2)
            return load<std::uint32_t>(cell) | any_of<N - 2>(cell + 2);
        else if constexpr (N == 1)
            return *cell;
        else
            return 0;
    }
    template <std::uint64_t N>
    [[gnu::always_inline]] static void take(ComposedCell* cell, ComposedCell start) noexcept {
        if constexpr (N >= 4) {
            store<std::uint64_t>(cell, start);
            take<N - 4>(cell + 4, kTaken);
        } else if constexpr (N >= 2) {
            store<std::uint32_t>(cell, start);
            take<N - 2>(cell + 2, kTaken);
        } else if constexpr (N == 1) {
            *cell = start;
        }
    }
    template <class Word>
    [[gnu::always_inline]] static Word load(const ComposedCell* cell) noexcept {
        Word word;
        std::memcpy(&word, cell, sizeof word);
        return word;
    }
    // The first of its cells is `start`.
    template <class Word>
    [[gnu::always_inline]] static void store(ComposedCell* cell, ComposedCell start) noexcept {
        static_assert(std::endian::native == std::endian::little);
        constexpr Word kOthers = static_cast<Word>(~Word{0} / 0xffff * kTaken) & ~Word{0xffff};
        const Word word = kOthers | start;
        std::memcpy(cell, &word, sizeof word);
    }
};

}  // namespace verbatim::objects
