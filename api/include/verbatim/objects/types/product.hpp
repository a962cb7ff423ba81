// Products hold parts of different types at fixed places: classes of the program, tuples. This is
// also the trait of every type that no other file of this folder knows: its members are found
// (describe/members.hpp), or compilation stops with a sentence.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <verbatim/objects/describe/members.hpp>
#include <verbatim/objects/describe/type_name.hpp>
#include <verbatim/objects/types/marked.hpp>
#include <verbatim/objects/types/sent_field.hpp>
#include <verbatim/objects/types/trait.hpp>

namespace verbatim::objects {
namespace detail {

// Offsets are taken from storage in which no object was ever made: only addresses are formed.
template <class T>
union Unmade {
    char none;
    T value;
    Unmade() : none{} {}
    ~Unmade() {}
};

// `Listed` has kCount, get<I>(object), name<I>(); of classes also is_counted<I>(),
// count<I>(object).
template <class T, class Listed>
struct ProductTrait {
    template <std::size_t I>
    using Part = std::remove_cvref_t<decltype(Listed::template get<I>(std::declval<T&>()))>;
    using Indices = std::make_index_sequence<Listed::kCount>;
    template <std::size_t... I>
    static auto parts_of(std::index_sequence<I...>) -> List<Part<I>...>;

    using Parts = decltype(parts_of(Indices{}));
    using Edges = List<>;
    template <class P>
    using IsPlain = std::bool_constant<verbatim::objects::kPlain<P>>;
    static constexpr bool kPlain = boost::mp11::mp_all_of<Parts, IsPlain>::value;

    static TypeInfo info() {
        TypeInfo info;
        Unmade<T> storage;
        const auto* base = reinterpret_cast<const std::byte*>(&storage);
        each([&]<std::size_t I>() {
            const auto& part = Listed::template get<I>(storage.value);
            info.parts.push_back(
                {std::string(Listed::template name<I>()),
                 static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&part) - base),
                 &type_info<Part<I>>});
        });
        return info;
    }
    template <class S>
    [[gnu::always_inline]] static void pack(S& sender, const T& object, Slot slot) {
        each([&]<std::size_t I>() __attribute__((always_inline)) {
            if constexpr (kHasReferences<Part<I>>) {
                const auto& part = Listed::template get<I>(object);
                const auto delta = reinterpret_cast<const std::byte*>(&part) -
                                   reinterpret_cast<const std::byte*>(&object);
                const Slot at = slot.at(static_cast<std::size_t>(delta));
                if constexpr (is_counted<I>())
                    TraitOf<Part<I>>::pack(sender, part, at, Listed::template count<I>(object));
                else
                    TraitOf<Part<I>>::pack(sender, part, at);
            }
        });
    }
    template <class R>
    [[gnu::always_inline]] static void mend(R& receiver, T& object) {
        each([&]<std::size_t I>() __attribute__((always_inline)) {
            if constexpr (!verbatim::objects::kPlain<Part<I>>) {
                auto& part = const_cast<Part<I>&>(Listed::template get<I>(object));
                if constexpr (is_counted<I>())
                    TraitOf<Part<I>>::mend(receiver, part, Listed::template count<I>(object));
                else
                    TraitOf<Part<I>>::mend(receiver, part);
            }
        });
    }

  private:
    template <std::size_t I>
    static constexpr bool is_counted() noexcept {
        if constexpr (requires { Listed::template is_counted<I>(); })
            return Listed::template is_counted<I>();
        else
            return false;
    }
    template <class Call>
    [[gnu::always_inline]] static void each(Call&& call) {
        [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
            (call.template operator()<I>(), ...);
        }
        (Indices{});
    }
};

// The fields of a class that are to be checked; described ones have their names in the error.
template <class T, class Product>
struct FieldsOf {
    template <std::size_t I>
    static consteval bool is_named() {
        if constexpr (Described<T>) return I < Members<T>::kOwn;
        return false;
    }
    template <std::size_t I>
    static auto field() {
        using Part = typename Product::template Part<I>;
        if constexpr (is_named<I>())
            return std::type_identity<sent_field<
                T, I, Part, boost::mp11::mp_at_c<typename Members<T>::List, I>::pointer>>{};
        else
            return std::type_identity<sent_field<T, I, Part>>{};
    }
    template <std::size_t... I>
    static auto all(std::index_sequence<I...>) -> List<typename decltype(field<I>())::type...>;
    using Type = decltype(all(typename Product::Indices{}));
};

// std::any, std::mutex and the like: their members belong to the library.
template <class T>
constexpr bool names_standard_class() noexcept {
    return raw_type_name<T>().starts_with("std::");
}

template <class T>
consteval bool is_class_of_the_program() {
    static_assert(!std::is_reference_v<T>,
                  "verbatim: a reference member cannot be re-seated at the receiver; use a "
                  "pointer");
    static_assert(std::is_class_v<T> || std::is_union_v<T>,
                  "verbatim: this type cannot be sent (member pointers and nullptr_t have no "
                  "meaning elsewhere)");
    static_assert(Described<T> || !names_standard_class<T>(),
                  "verbatim: this standard type cannot be sent; docs/objects.md lists those that "
                  "can, and shows how to add a trait");
    return members_are_known__else_add_VERBATIM_DESCRIBE<T>();
}

}  // namespace detail

template <class T>
struct Trait : std::enable_if_t<
                   detail::is_class_of_the_program<T>(),
                   std::type_identity<detail::ProductTrait<T, detail::MarkedMembers<T>>>>::type {
    using Product = detail::ProductTrait<T, detail::MarkedMembers<T>>;
    using Fields = typename detail::FieldsOf<T, Product>::Type;
    static constexpr bool kPlain = !detail::Validated<T> && Product::kPlain;
    static std::string spell() { return type_name<T>(); }
    static TypeInfo info() {
        TypeInfo info = Product::info();
        info.is_class = true;
        return info;
    }
    template <class R>
    [[gnu::always_inline]] static void mend(R& receiver, T& object) {
        Product::mend(receiver, object);
        if constexpr (detail::Validated<T>) receiver.validate_later(&object, &detail::is_valid<T>);
    }
};

}  // namespace verbatim::objects
