// std::tuple and std::pair. libstdc++ lays a tuple's elements out from the last to the first, so
// their places are taken from their addresses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <verbatim/objects/traits/product.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

template <class... T>
struct TupleParts : NamelessParts<sizeof...(T)> {
    static_assert(
        !(std::is_reference_v<T> || ...),
        "verbatim: a tuple or pair of references cannot be re-seated at the receiver; use "
        "pointers");
    template <std::size_t I>
    static constexpr auto& get(auto& object) noexcept {
        return std::get<I>(object);
    }
};

}  // namespace detail

template <class A, class B>
struct Trait<std::pair<A, B>> : detail::ProductTrait<std::pair<A, B>, detail::TupleParts<A, B>> {
    static std::string spell() {
        return spell_template("pair", {&TraitOf<A>::spell, &TraitOf<B>::spell});
    }
};

template <class... T>
struct Trait<std::tuple<T...>> : detail::ProductTrait<std::tuple<T...>, detail::TupleParts<T...>> {
    static std::string spell() { return spell_template("tuple", {&TraitOf<T>::spell...}); }
    static TypeInfo info() {
        auto info = detail::ProductTrait<std::tuple<T...>, detail::TupleParts<T...>>::info();
        // An empty element may share its place with another one, which is then meant.
        constexpr bool is_empty[] = {std::is_empty_v<T>..., false};
        std::size_t number = 0;
        std::erase_if(info.parts, [&](const PartInfo&) { return is_empty[number++]; });
        return info;
    }
};

template <>
struct Trait<std::tuple<>> : PlainTrait {
    static std::string spell() { return "tuple<>"; }
};

}  // namespace verbatim::objects
