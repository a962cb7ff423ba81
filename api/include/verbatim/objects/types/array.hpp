// Arrays: std::array, and C arrays as members of described types.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

template <class E, std::size_t N>
struct ArrayTrait {
    using Element = std::remove_cv_t<E>;
    using Parts = List<Element>;
    using Edges = List<>;
    static constexpr bool kHoldsAllParts = true;
    static constexpr bool kPlain = verbatim::objects::kPlain<E>;
    static std::string spell() { return spell_array("array", &TraitOf<E>::spell, N); }
    static TypeInfo info() {
        TypeInfo info;
        info.count = N;
        info.element = &type_info<Element>;
        return info;
    }
    template <class S, class Array>
    static void pack(S& sender, const Array& array, Slot slot) {
        const auto* first = reinterpret_cast<const Element*>(&array);
        if constexpr (requires { TraitOf<E>::pack_many(sender, first, N, slot); })
            TraitOf<E>::pack_many(sender, first, N, slot);
        else
            for (std::size_t i = 0; i < N; ++i)
                TraitOf<E>::pack(sender, first[i], slot.at(i * sizeof(E)));
    }
    template <class R, class Array>
    static void mend(R& receiver, Array& array) {
        auto* first = reinterpret_cast<Element*>(&array);
        for (std::size_t i = 0; i < N; ++i) TraitOf<E>::mend(receiver, first[i]);
    }
};

// An array of no elements still has a byte.
template <class E>
struct ArrayTrait<E, 0> : PlainTrait {
    static std::string spell() { return spell_array("array", &TraitOf<E>::spell, 0); }
};

}  // namespace detail

template <class E, std::size_t N>
struct Trait<std::array<E, N>> : detail::ArrayTrait<E, N> {};
template <class E, std::size_t N>
struct Trait<E[N]> : detail::ArrayTrait<E, N> {};

}  // namespace verbatim::objects
