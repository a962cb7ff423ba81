// std::tuple and std::pair. libstdc++ lays a tuple's elements out from the last to the first, so
// their places are taken from their addresses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <verbatim/objects/types/product.hpp>
#include <verbatim/objects/types/trait.hpp>

namespace verbatim::objects {
namespace detail {

template <class... T>
struct TupleParts {
    static_assert(
        !(std::is_reference_v<T> || ...),
        "verbatim: a tuple or pair of references cannot be re-seated at the receiver; use "
        "pointers");
    static constexpr std::size_t kCount = sizeof...(T);
    template <std::size_t I>
    static constexpr auto& get(auto& object) noexcept {
        return std::get<I>(object);
    }
    template <std::size_t I>
    static constexpr std::string_view name() noexcept {
        return {};
    }
    template <std::size_t I>
    static constexpr bool is_counted() noexcept {
        return false;
    }
    template <std::size_t I>
    static constexpr std::uint64_t count(const auto&) noexcept {
        return 0;
    }
};

template <class... T>
std::string spell_all(const char* name) {
    std::string text = name;
    const char* separator = "<";
    ((text += std::exchange(separator, ", ") + TraitOf<T>::spell()), ...);
    return text + ">";
}

}  // namespace detail

template <class A, class B>
struct Trait<std::pair<A, B>> : detail::ProductTrait<std::pair<A, B>, detail::TupleParts<A, B>> {
    static std::string spell() { return detail::spell_all<A, B>("pair"); }
};

template <class... T>
struct Trait<std::tuple<T...>> : detail::ProductTrait<std::tuple<T...>, detail::TupleParts<T...>> {
    static std::string spell() { return detail::spell_all<T...>("tuple"); }
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
