// std::basic_string_view and std::span. The objects that they look at are part of the graph, once,
// also where a container of the graph owns them. Empty views look at nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <verbatim/objects/libstdcxx_values.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

// `Image` has `data` and `size`.
template <class E, class Image>
struct ViewTrait {
    using Parts = List<>;
    using Edges = List<ViewOf<E>>;
    static constexpr bool kPlain = false;
    static TypeInfo info() { return info_of_reference(&type_info<E>); }
    template <class S, class View>
    static void pack(S& sender, const View& view, Slot slot) {
        const E* const first = view.data();
        if (first != nullptr)
            sender.template view<E>(first, view.size(), slot.at(offsetof(Image, data)));
    }
    template <class R, class View>
    static void mend(R& receiver, View& view) {
        auto* const bytes = reinterpret_cast<std::byte*>(&view);
        std::size_t size = 0;
        std::memcpy(&size, bytes + offsetof(Image, size), sizeof size);
        receiver.template view<E>(bytes + offsetof(Image, data), size);
    }
};

}  // namespace detail

template <class C>
struct Trait<std::basic_string_view<C, std::char_traits<C>>>
    : detail::ViewTrait<C, StringViewImage> {
    static std::string spell() { return spell_template("string_view", {&TraitOf<C>::spell}); }
};

template <class T>
struct Trait<std::span<T>> : detail::ViewTrait<std::remove_cv_t<T>, SpanImage> {
    static_assert(!std::is_volatile_v<T>, "verbatim: volatile objects cannot be sent");
    static std::string spell() { return spell_template("span", {&TraitOf<T>::spell}); }
};

// A fixed extent is part of the type.
template <class T, std::size_t N>
requires(N != std::dynamic_extent) struct Trait<std::span<T, N>> {
    static_assert(!std::is_volatile_v<T>, "verbatim: volatile objects cannot be sent");
    using Target = std::remove_cv_t<T>;
    using Parts = List<>;
    using Edges = List<ViewOf<Target>>;
    static constexpr bool kPlain = false;
    static std::string spell() { return spell_array("span", &TraitOf<T>::spell, N); }
    static TypeInfo info() { return Trait<std::span<T>>::info(); }
    template <class S>
    static void pack(S& sender, const std::span<T, N>& span, Slot slot) {
        sender.template view<Target>(span.data(), N, slot);
    }
    template <class R>
    static void mend(R& receiver, std::span<T, N>& span) {
        // One of no elements is of an empty class' size, or an address that does not matter.
        if constexpr (N > 0)
            receiver.template view<Target>(&span, N);
        else
            std::memset(static_cast<void*>(&span), 0, sizeof span);
    }
};

}  // namespace verbatim::objects
