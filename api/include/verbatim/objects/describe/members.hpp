// The members of a class are found automatically where that is possible (structured bindings,
// Boost.PFR beyond 32 members). Elsewhere one line describes them. A type that fits neither stops
// compilation with a sentence that names the line to add.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>
#include <boost/pfr/core.hpp>

#include <verbatim/objects/describe/bindings.hpp>
#include <verbatim/objects/describe/registers.hpp>
#include <verbatim/objects/describe/type_name.hpp>

// Describes a struct that cannot be taken apart automatically (C arrays, packed or over-aligned
// members): VERBATIM_DESCRIBE(Type, member, member...) after the type, in its namespace. Every
// non-static data member must be listed, in any order.
#define VERBATIM_DESCRIBE(Type, ...)               \
    BOOST_DESCRIBE_STRUCT(Type, (), (__VA_ARGS__)) \
    VERBATIM_REGISTERS(Type)
// The same for a struct with base classes: VERBATIM_DESCRIBE_DERIVED(Type, (Base, Base2),
// member...) with its own members.
#define VERBATIM_DESCRIBE_DERIVED(Type, Bases, ...)   \
    BOOST_DESCRIBE_STRUCT(Type, Bases, (__VA_ARGS__)) \
    VERBATIM_REGISTERS(Type)
// Inside a class with private members: VERBATIM_DESCRIBE_PRIVATE(Type, member...).
#define VERBATIM_DESCRIBE_PRIVATE(Type, ...) \
    VERBATIM_DESCRIBE_PRIVATE_DERIVED(Type, (), __VA_ARGS__)
// The same with base classes: VERBATIM_DESCRIBE_PRIVATE_DERIVED(Type, (Base, Base2), member...).
#define VERBATIM_DESCRIBE_PRIVATE_DERIVED(Type, Bases, ...)  \
    BOOST_DESCRIBE_CLASS(Type, Bases, (), (), (__VA_ARGS__)) \
    static inline const ::verbatim::objects::detail::Registers<Type> verbatim_registers_{};

namespace verbatim::objects {
namespace detail {

// The part of an object that is of this base class, which may be private: only a cast of C's kind
// reaches it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
template <class Base, class T>
[[gnu::always_inline]] constexpr Base& base_of(T& object) noexcept {
    return (Base&)object;
}
#pragma GCC diagnostic pop

template <class T>
struct AnyBaseOf {
    template <class U>
    requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>) operator U() const&& noexcept {
        std::abort();
    }
};
// Converts to any type, in expressions that are never evaluated.
struct Anything {
    template <class U>
    operator U() const&& noexcept {
        std::abort();
    }
};
template <std::size_t>
using AnythingAt = Anything;
// An element of a braced list. Only for types that can be copied: clang instantiates the list
// constructor of a vector that is offered other elements, and stops there. No tags: clang does the
// same with a tuple's constructor for an allocator.
struct AnyElement {
    template <class U>
    requires(std::is_copy_constructible_v<U> && !std::is_same_v<U, std::allocator_arg_t> &&
             !std::is_same_v<U, std::in_place_t>)
    operator U() const&& noexcept {
        std::abort();
    }
};

// Initialisers an aggregate takes, at most Limit; each element of a C array counts.
template <class T, std::size_t... I>
constexpr bool takes_initialisers(std::index_sequence<I...>) {
    return requires { T{AnythingAt<I>{}...}; };
}
template <class T, std::size_t Limit>
consteval std::size_t count_initialisers() {
    if constexpr (Limit == 0 || takes_initialisers<T>(std::make_index_sequence<Limit>{}))
        return Limit;
    else
        return count_initialisers<T, Limit - 1>();
}
// One more than can be bound tells that there are more.
template <class T>
consteval std::size_t count_members() {
    constexpr std::size_t count = count_initialisers<T, kMaxBound + 1>();
    if constexpr (count <= kMaxBound)
        return count;
    else
        return boost::pfr::tuple_size_v<T>;
}

template <class T, class From>
concept MadeOf = requires {
    T{From{}};
};
// A first member that can be made of anything can be made of that, too.
struct NoBase {};
template <class T>
inline constexpr bool kHasBase = MadeOf<T, AnyBaseOf<T>> && !MadeOf<T, NoBase>;

// Can the initialiser at position sizeof...(Before) be a braced pair, with that many initialisers
// after it?
template <class T, std::size_t... Before, std::size_t... After>
constexpr bool takes_pair(std::index_sequence<Before...>, std::index_sequence<After...>) {
    return requires {
        T{AnythingAt<Before>{}..., {AnyElement{}, AnyElement{}}, AnythingAt<After>{}...};
    };
}
// A C array is the only member that takes a braced pair in place of more than one initialiser.
template <class T, std::size_t Count, std::size_t I>
constexpr bool array_at() {
    if constexpr (!takes_pair<T>(std::make_index_sequence<I>{}, std::index_sequence<>{}))
        return false;
    else
        return !takes_pair<T>(std::make_index_sequence<I>{},
                              std::make_index_sequence<Count - I - 1>{});
}
template <class T, std::size_t Count, std::size_t I = 0>
consteval bool has_array() {
    if constexpr (I >= Count)
        return false;
    else if constexpr (array_at<T, Count, I>())
        return true;
    else
        return has_array<T, Count, I + 1>();
}

// Size of a struct whose members are laid out one after the other as the ABI does for plain
// members.
template <class... M>
constexpr std::size_t plain_size(TypeList<M...>) {
    std::size_t end = 0, alignment = 1;
    ((end = (end + alignof(M) - 1) / alignof(M) * alignof(M) + sizeof(M),
      alignment = alignof(M) > alignment ? alignof(M) : alignment),
     ...);
    return (end + alignment - 1) / alignment * alignment;
}

template <class... M>
constexpr bool has_reference(TypeList<M...>) {
    return (std::is_reference_v<M> || ...);
}

template <class T, std::size_t Count>
using BoundOf = decltype(detail::bind(std::declval<T&>(), detail::Count<Count>{}));

}  // namespace detail

template <class T>
concept Described = boost::describe::has_describe_members<T>::value;

namespace detail {

// The struct's members, counted as initialisers.
template <class T, std::size_t Count>
consteval bool bound_members_are_known() {
    using Bound = BoundOf<T, Count>;
    constexpr bool is_plain = plain_size(typename Bound::Types{}) == sizeof(T);
    constexpr bool has_references = has_reference(typename Bound::Types{});
    static_assert(!has_references,
                  "verbatim: this struct has a reference member, which cannot be re-seated at the "
                  "receiver; use a pointer");
    static_assert(
        Bound::kAddressable,
        "verbatim: this struct has a bit-field or a packed member, which no reference can "
        "name; use plain integers, and add VERBATIM_DESCRIBE(Type, member, ...) if the "
        "struct needs describing");
    static_assert(has_references || !Bound::kAddressable || is_plain,
                  "verbatim: this struct has bit-fields, packed, over-aligned or empty members, so "
                  "its layout cannot be derived; replace bit-fields by plain integers, then add "
                  "VERBATIM_DESCRIBE(Type, member, ...) after it");
    return !has_references && Bound::kAddressable && is_plain;
}
template <class T>
consteval bool aggregate_members_are_known() {
    constexpr std::size_t count = count_initialisers<T, kMaxBound + 1>();
    constexpr bool array = has_array<T, count>();
    static_assert(
        !array,
        "verbatim: this struct has a C array as a member, so its members cannot be listed "
        "automatically; add VERBATIM_DESCRIBE(Type, member, ...) after it, or use "
        "std::array");
    static_assert(count > 0 || std::is_empty_v<T>,
                  "verbatim: this struct has a reference member, which cannot be re-seated at the "
                  "receiver; use a pointer. Or its first member can be made of anything; then add "
                  "VERBATIM_DESCRIBE(Type, member, ...) after it");
    if constexpr (array || (count == 0 && !std::is_empty_v<T>))
        return false;
    else if constexpr (count >= 1 && count <= kMaxBound)
        return bound_members_are_known<T, count>();
    else
        return true;
}

}  // namespace detail

// Stops compilation if T's members cannot be listed; its name gives the remedy in every error
// trace.
template <class T>
consteval bool members_are_known__else_add_VERBATIM_DESCRIBE() {
    constexpr bool is_registered = !std::is_polymorphic_v<T> || Described<T>;
    constexpr bool is_named = !std::is_polymorphic_v<T> || !detail::has_internal_name<T>();
    static_assert(is_registered,
                  "verbatim: this class has virtual functions, so it must be described; add "
                  "VERBATIM_DESCRIBE(Type, member, ...) after it, or VERBATIM_DESCRIBE_DERIVED "
                  "with its bases");
    static_assert(is_named,
                  "verbatim: a class with virtual functions in an anonymous namespace cannot be "
                  "sent; its name means nothing to the receiver");
    static_assert(!std::is_union_v<T>,
                  "verbatim: a union does not say which member is alive; send a struct with a tag, "
                  "or std::variant");
    if constexpr (!is_registered || !is_named || std::is_union_v<T>) {
        return false;
    } else if constexpr (Described<T>) {
        return true;
    } else if constexpr (!std::is_aggregate_v<T>) {
        static_assert(std::is_aggregate_v<T>,
                      "verbatim: this class has constructors, private members or base classes, so "
                      "its members cannot be listed automatically; add VERBATIM_DESCRIBE(Type, "
                      "member, ...) after it (or VERBATIM_DESCRIBE_PRIVATE inside it, "
                      "VERBATIM_DESCRIBE_DERIVED with bases)");
        return false;
    } else if constexpr (detail::kHasBase<T>) {
        static_assert(!detail::kHasBase<T>,
                      "verbatim: this struct has a base class, so its members cannot be listed "
                      "automatically; add VERBATIM_DESCRIBE_DERIVED(Type, (Base), member, ...) "
                      "after it");
        return false;
    } else {
        return detail::aggregate_members_are_known<T>();
    }
}

namespace detail {

// Its own members, then its bases: where a base ends in padding, members may lie in that.
template <class T>
struct DescribedMembers {
    using List = boost::describe::describe_members<T, boost::describe::mod_any_access>;
    using Bases = boost::describe::describe_bases<T, boost::describe::mod_any_access>;
    template <class Base>
    using IsVirtual = boost::mp11::mp_bool<(Base::modifiers & boost::describe::mod_virtual) != 0>;
    static_assert(
        !boost::mp11::mp_any_of<Bases, IsVirtual>::value,
        "verbatim: a class with virtual bases cannot be sent; the place of such a base is "
        "not part of its type");
    static constexpr std::size_t kOwn = boost::mp11::mp_size<List>::value;
    static constexpr std::size_t kCount = kOwn + boost::mp11::mp_size<Bases>::value;
    static constexpr bool is_base(std::size_t number) noexcept { return number >= kOwn; }
    template <std::size_t I>
    static constexpr auto& get(auto& object) noexcept {
        if constexpr (I < kOwn) {
            return object.*boost::mp11::mp_at_c<List, I>::pointer;
        } else {
            using Base = typename boost::mp11::mp_at_c<Bases, I - kOwn>::type;
            using Same =
                std::conditional_t<std::is_const_v<std::remove_reference_t<decltype(object)>>,
                                   const Base, Base>;
            return base_of<Same>(object);
        }
    }
    template <std::size_t I>
    static constexpr std::string_view name() noexcept {
        if constexpr (I < kOwn)
            return boost::mp11::mp_at_c<List, I>::name;
        else
            return "(base class)";
    }
};

template <class T>
struct TakenApartMembers {
    static constexpr std::size_t kCount = count_members<T>();
    template <std::size_t I>
    static constexpr auto& get(auto& object) noexcept {
        if constexpr (kCount <= kMaxBound)
            return member<I>(object, Count<kCount>{});
        else
            return boost::pfr::get<I>(object);
    }
    template <std::size_t I>
    static constexpr std::string_view name() noexcept {
        return {};  // C++20 has no way to learn it
    }
};

}  // namespace detail

// kCount, get<I>(object), name<I>() (empty when not described) of a class type.
template <class T>
requires(members_are_known__else_add_VERBATIM_DESCRIBE<T>()) struct Members
    : std::conditional_t<Described<T>, std::type_identity<detail::DescribedMembers<T>>,
                         std::type_identity<detail::TakenApartMembers<T>>>::type {
};

template <class T, std::size_t I>
using MemberType = std::remove_cvref_t<decltype(Members<T>::template get<I>(std::declval<T&>()))>;

}  // namespace verbatim::objects
