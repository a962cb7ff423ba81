// A form says how a supported type is traversed, and whether it holds references. A type without a
// form stops compilation with a sentence that names the supported types.
#pragma once

#include <array>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <verbatim/objects/members.hpp>
#include <verbatim/objects/type_name.hpp>

namespace verbatim::objects {

enum class Form : std::uint8_t {
    scalar,    // arithmetic, enum, duration, complex: bytes without references
    boolean,   // checked on receipt: any value but 0 and 1 would be undefined
    pointer,   // T* or std::unique_ptr<T>: one object elsewhere, or null
    text,      // std::basic_string
    sequence,  // std::vector: n objects elsewhere
    array,     // std::array, C array (in described types)
    optional,  // std::optional
    product,   // std::pair, aggregates, described classes
};

namespace detail {

template <class T>
struct PointerTraits : std::false_type {};
template <class T>
struct PointerTraits<T*> : std::true_type {
    using Target = std::remove_const_t<T>;
};
template <class T>
struct PointerTraits<std::unique_ptr<T, std::default_delete<T>>> : std::true_type {
    using Target = std::remove_const_t<T>;
};

template <class A, class E>
inline constexpr bool kStandardAllocator = std::is_same_v<A, std::allocator<E>>;
template <class A, class E>
inline constexpr bool kPolymorphicAllocator = std::is_same_v<A, std::pmr::polymorphic_allocator<E>>;

template <class T>
struct TextTraits : std::false_type {};
template <class C, class A>
struct TextTraits<std::basic_string<C, std::char_traits<C>, A>> : std::true_type {
    using Element = C;
    static constexpr bool kPolymorphic = kPolymorphicAllocator<A, C>;
    static constexpr bool kSupported = kPolymorphic || kStandardAllocator<A, C>;
};

template <class T>
struct SequenceTraits : std::false_type {};
template <class E, class A>
struct SequenceTraits<std::vector<E, A>> : std::true_type {
    using Element = E;
    static constexpr bool kPolymorphic = kPolymorphicAllocator<A, E>;
    static constexpr bool kSupported = kPolymorphic || kStandardAllocator<A, E>;
};

template <class T>
struct ArrayTraits : std::false_type {};
template <class E, std::size_t N>
struct ArrayTraits<std::array<E, N>> : std::true_type {
    using Element = E;
    static constexpr std::size_t kCount = N;
};
template <class E, std::size_t N>
struct ArrayTraits<E[N]> : std::true_type {
    using Element = E;
    static constexpr std::size_t kCount = N;
};

template <class T>
struct OptionalTraits : std::false_type {};
template <class T>
struct OptionalTraits<std::optional<T>> : std::true_type {
    using Element = T;
};

template <class T>
struct PairTraits : std::false_type {};
template <class A, class B>
struct PairTraits<std::pair<A, B>> : std::true_type {};

template <class T>
struct IsScalarClass : std::false_type {};
template <class R, class P>
struct IsScalarClass<std::chrono::duration<R, P>> : std::is_arithmetic<R> {};
template <class C, class D>
struct IsScalarClass<std::chrono::time_point<C, D>> : IsScalarClass<D> {};
template <class R>
struct IsScalarClass<std::complex<R>> : std::is_arithmetic<R> {};

// std::map, std::shared_ptr and the like: their members belong to the library.
template <class T>
constexpr bool names_standard_class() noexcept {
    return raw_type_name<T>().starts_with("std::");
}

template <class T>
consteval Form form_of() {
    static_assert(
        !std::is_reference_v<T>,
        "verbatim: a reference member cannot be re-seated at the receiver; use a pointer");
    static_assert(!std::is_volatile_v<T>, "verbatim: volatile members cannot be sent");
    if constexpr (std::is_same_v<T, bool>) {
        return Form::boolean;
    } else if constexpr (PointerTraits<T>::value) {
        using Target = typename PointerTraits<T>::Target;
        static_assert(!std::is_function_v<Target>,
                      "verbatim: a function pointer means nothing in another process; send an "
                      "index or a name");
        static_assert(
            !std::is_void_v<Target>,
            "verbatim: a void pointer does not say what it points to; use a typed pointer");
        return Form::pointer;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || IsScalarClass<T>::value) {
        return Form::scalar;
    } else if constexpr (TextTraits<T>::value) {
        static_assert(TextTraits<T>::kSupported,
                      "verbatim: strings need std::allocator or std::pmr::polymorphic_allocator");
        return Form::text;
    } else if constexpr (SequenceTraits<T>::value) {
        static_assert(!std::is_same_v<typename SequenceTraits<T>::Element, bool>,
                      "verbatim: std::vector<bool> holds no bools; use std::vector<std::uint8_t>");
        static_assert(SequenceTraits<T>::kSupported,
                      "verbatim: vectors need std::allocator or std::pmr::polymorphic_allocator");
        return Form::sequence;
    } else if constexpr (ArrayTraits<T>::value) {
        return Form::array;
    } else if constexpr (OptionalTraits<T>::value) {
        return Form::optional;
    } else if constexpr (PairTraits<T>::value) {
        return Form::product;
    } else {
        static_assert(std::is_class_v<T> || std::is_union_v<T>,
                      "verbatim: this type cannot be sent (member pointers and nullptr_t have no "
                      "meaning elsewhere)");
        static_assert(
            Described<T> || !names_standard_class<T>(),
            "verbatim: this standard type cannot be sent yet; supported are std::string, "
            "std::vector, "
            "std::array, std::pair, std::optional, std::unique_ptr, std::complex and std::chrono "
            "durations and time points (std and std::pmr)");
        static_assert(members_are_known__else_add_VERBATIM_DESCRIBE<T>());
        return Form::product;
    }
}

}  // namespace detail

template <class T>
inline constexpr Form kForm = detail::form_of<T>();

// The parts of a product: kCount, get<I>(object), name<I>().
template <class T>
struct Parts : Members<T> {};
template <class A, class B>
struct Parts<std::pair<A, B>> {
    static constexpr std::size_t kCount = 2;
    template <std::size_t I>
    static constexpr auto& get(auto& object) noexcept {
        return std::get<I>(object);
    }
    template <std::size_t I>
    static constexpr std::string_view name() noexcept {
        return I == 0 ? "first" : "second";
    }
};
template <class T, std::size_t I>
using PartType = std::remove_cvref_t<decltype(Parts<T>::template get<I>(std::declval<T&>()))>;

// The target of a pointer, string or vector.
template <class T>
struct TargetOf {};
template <class T>
requires(kForm<T> == Form::pointer) struct TargetOf<T> {
    using Type = typename detail::PointerTraits<T>::Target;
};
template <class T>
requires(kForm<T> == Form::text) struct TargetOf<T> {
    using Type = typename detail::TextTraits<T>::Element;
};
template <class T>
requires(kForm<T> == Form::sequence) struct TargetOf<T> {
    using Type = typename detail::SequenceTraits<T>::Element;
};
template <class T>
using Target = typename TargetOf<T>::Type;

// The type held by value: of an array or an optional.
template <class T>
struct HeldBy : detail::ArrayTraits<T> {};
template <class T>
struct HeldBy<std::optional<T>> {
    using Element = T;
};
template <class T>
using Held = typename HeldBy<T>::Element;

namespace detail {

template <class T, template <class> class Predicate>
consteval bool any_part() {
    if constexpr (kForm<T> == Form::product)
        return []<std::size_t... I>(std::index_sequence<I...>) {
            return (Predicate<PartType<T, I>>::value || ...);
        }
    (std::make_index_sequence<Parts<T>::kCount>{});
    else if constexpr (kForm<T> == Form::array ||
                       kForm<T> == Form::optional) return Predicate<Held<T>>::value;
    else return false;
}

template <class T>
struct HasReferences {
    static constexpr Form kF = kForm<T>;
    static constexpr bool value = kF == Form::pointer || kF == Form::text || kF == Form::sequence ||
                                  any_part<T, HasReferences>();
};

template <class T>
struct NeedsCheck {
    static constexpr bool value =
        kForm<T> == Form::boolean || kForm<T> == Form::optional || any_part<T, NeedsCheck>();
};

// Depth of types (not of objects) that one call chain of the walk may go down before it uses the
// stack.
inline constexpr int kShallowDepth = 4;

template <class T, int Depth>
consteval bool is_shallow();

template <class T, int Depth>
consteval bool parts_are_shallow() {
    return []<std::size_t... I>(std::index_sequence<I...>) {
        return (is_shallow<PartType<T, I>, Depth>() && ...);
    }
    (std::make_index_sequence<Parts<T>::kCount>{});
}

template <class T, int Depth>
consteval bool is_shallow() {
    if constexpr (!HasReferences<T>::value)
        return true;
    else if constexpr (Depth == 0)
        return false;
    else if constexpr (kForm<T> == Form::text)
        return true;
    else if constexpr (kForm<T> == Form::pointer || kForm<T> == Form::sequence)
        return is_shallow<Target<T>, Depth - 1>();
    else if constexpr (kForm<T> == Form::array || kForm<T> == Form::optional)
        return is_shallow<Held<T>, Depth>();
    else
        return parts_are_shallow<T, Depth>();
}

}  // namespace detail

// True if objects of T refer to other objects.
template <class T>
inline constexpr bool kHasReferences = detail::HasReferences<T>::value;
// True if some bytes of T have forbidden values.
template <class T>
inline constexpr bool kNeedsCheck = detail::NeedsCheck<T>::value;
// True if everything reachable from a T is a few types deep at most, so that no data can make the
// walk recurse.
template <class T>
inline constexpr bool kShallow = detail::is_shallow<T, detail::kShallowDepth>();

}  // namespace verbatim::objects
