// std::variant: its index is checked before an alternative is looked at. One that is valueless
// arrives valueless.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <verbatim/objects/libstdcxx_values.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <>
struct Trait<std::monostate> : PlainTrait {
    static std::string spell() { return "monostate"; }
};

template <class... T>
struct Trait<std::variant<T...>> {
    using Variant = std::variant<T...>;
    using Image = VariantImage<T...>;
    using Parts = List<std::remove_cv_t<T>...>;
    using Edges = List<>;
    static constexpr bool kPlain = false;
    static std::string spell() { return spell_template("variant", {&TraitOf<T>::spell...}); }
    static TypeInfo info() {
        TypeInfo info;
        info.choices = {&type_info<std::remove_cv_t<T>>...};
        info.alive = [](const std::byte* object) -> std::size_t { return Image::index(object); };
        return info;
    }
    template <class S>
    static void pack(S& sender, const Variant& variant, Slot slot) {
        choose(variant.index(), [&]<std::size_t I, class A>() {
            if constexpr (kHasReferences<A>)
                TraitOf<A>::pack(sender, *std::get_if<I>(&variant), slot);
        });
    }
    template <class R>
    static void mend(R& receiver, Variant& variant) {
        auto* const bytes = reinterpret_cast<std::byte*>(&variant);
        const auto index = Image::index(bytes);
        if (index >= sizeof...(T) && !(Image::kCanBeValueless && index == Image::kValueless))
            receiver.corrupt("a variant has an alternative that its type lacks");
        choose(index, [&]<std::size_t, class A>() {
            if constexpr (!verbatim::objects::kPlain<A>)
                TraitOf<A>::mend(receiver, *reinterpret_cast<A*>(bytes));
        });
    }

  private:
    // Calls with the number and type of the alternative, or not at all.
    template <class Call>
    static void choose(std::size_t index, Call&& call) {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (void)((index == I && (call.template operator()<I, std::remove_cv_t<T>>(), true)) ||
                   ...);
        }
        (std::index_sequence_for<T...>{});
    }
};

}  // namespace verbatim::objects
