// Composed lanes look at the pointers of an array's elements two at a time. Of each type that
// these lead to, they know one array. Most blocks of elements lead into these arrays alone. Others
// are looked at pointer by pointer. Threads: one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <verbatim/objects/composed/composed_map.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

// `Types`: the closure of the root.
template <class E, class Types>
class ComposedLanes {
  public:
    // Elements. It is even.
    static constexpr std::uint64_t kBlock = 64;
    // All that an E has to be looked at are raw pointers to what may lie in arrays.
    static constexpr bool takes() noexcept {
        if constexpr (alignof(E) % kWordBytes != 0 || kPairs > kMostPairs)
            return false;
        else if constexpr (std::is_pointer_v<E>)
            return leads_to_elements<E>();
        else if constexpr (requires { TraitOf<E>::kHoldsPointersOnly; })
            return TraitOf<E>::kHoldsPointersOnly && []<class... P>(List<P...>) {
                return (leads_to_elements<P>() && ...);
            }(typename TraitOf<E>::Parts{});
        else
            return false;
    }

    // `array_of` tells the array of a type. Offsets are those from `address`, of any value. So much
    // is added to each pointer that is moved: `distance`.
    ComposedLanes(std::uint64_t address, std::uint64_t distance, const auto& array_of) noexcept {
        const auto set = [&]<class F>(std::size_t offset) {
            const ComposedReference array = array_of.template operator()<F>();
            const bool holds_null = -(address + array.offset) < array.count * sizeof(F);
            knows_ = knows_ && offset % kWordBytes == 0 && !holds_null;
            for (std::size_t i = 0; i < kAtOnce; ++i) {
                const std::size_t word = offset / kWordBytes + i * kWords, lane = word % 2;
                Pairs& pair = pairs_[word / 2];
                pair.first[lane] = address + array.offset;
                pair.last[lane] = pair.first[lane] + (array.count - 1) * sizeof(F);
                pair.mask[lane] = kSign | (sizeof(F) - 1);
                pair.distance[lane] = distance;
            }
        };
        if constexpr (std::is_pointer_v<E>)
            set.template operator()<std::remove_cv_t<std::remove_pointer_t<E>>>(0);
        else
            TraitOf<E>::each_pointer_type(set);
    }

    // Elements of the array: calls `held` with each block all of whose pointers lead to elements of
    // the arrays that are known, and `others` with what is left.
    template <class T>
    [[gnu::always_inline]] void walk(T* first, std::uint64_t count, const auto& held,
                                     const auto& others) const {
        for (; count >= kBlock; first += kBlock, count -= kBlock)
            if (knows_ && hold(first))
                held(first);
            else
                others(first, kBlock);
        others(first, count);
    }
    // Do all pointers of a block lead to elements of the arrays? No null does.
    [[gnu::always_inline]] bool hold(const E* block) const noexcept {
        std::array<Words, kPairs> wrong{};
        const auto* at = reinterpret_cast<const std::byte*>(block);
        for (std::uint64_t i = 0; i < kBlock; i += kAtOnce)
            for (std::size_t pair = 0; pair < kPairs; ++pair, at += sizeof(Words)) {
                const Words address = load(at);
                // Negative, or no multiple of the size.
                wrong[pair] |= (address - pairs_[pair].first) | (pairs_[pair].last - address);
            }
        Words all{};
        for (std::size_t pair = 0; pair < kPairs; ++pair) all |= wrong[pair] & pairs_[pair].mask;
        return (all[0] | all[1]) == 0;
    }
    [[gnu::always_inline]] void move(E* block) const noexcept {
        auto* at = reinterpret_cast<std::byte*>(block);
        for (std::uint64_t i = 0; i < kBlock; i += kAtOnce)
            for (std::size_t pair = 0; pair < kPairs; ++pair, at += sizeof(Words)) {
                const Words moved = load(at) + pairs_[pair].distance;
                std::memcpy(at, &moved, sizeof moved);
            }
    }

  private:
    static constexpr std::size_t kWordBytes = sizeof(std::uint64_t), kMostPairs = 8;
    static constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    static constexpr std::size_t kWords = sizeof(E) / kWordBytes;
    // Elements that make whole pairs of words.
    static constexpr std::size_t kAtOnce = kWords % 2 == 0 ? 1 : 2;
    static constexpr std::size_t kPairs = kWords * kAtOnce / 2;

    using Words = std::uint64_t __attribute__((vector_size(16)));
    // What is no pointer has zeros.
    struct Pairs {
        Words first{}, last{};  // addresses of elements
        Words mask{}, distance{};
    };

    // Sizes are powers of two: so the low bits of a distance tell whether an element starts there.
    template <class P>
    static constexpr bool leads_to_elements() noexcept {
        if constexpr (std::is_pointer_v<P>) {
            using F = std::remove_cv_t<std::remove_pointer_t<P>>;
            return std::is_same_v<typename TraitOf<P>::Edges, List<PointerTo<F>>> &&
                   Types::template is_inner<F>() && std::has_single_bit(sizeof(F));
        } else {
            return kPlain<P>;
        }
    }
    [[gnu::always_inline]] static Words load(const std::byte* at) noexcept {
        Words words;
        std::memcpy(&words, at, sizeof words);
        return words;
    }

    std::array<Pairs, kPairs> pairs_;
    // No: a class is packed, and a pointer lies across two words; or a null would lead to an
    // element.
    bool knows_ = true;
};

}  // namespace verbatim::objects
