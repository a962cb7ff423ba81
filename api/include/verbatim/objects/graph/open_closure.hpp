// Open graphs have pointers to polymorphic classes. Their objects may be of any registered class,
// also of one that the walk's source has never heard of. One walk serves all of them.
// It claims every object, and knows types by their numbers in this process (docs/graphs.md,
// "Open graphs").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <typeinfo>

#include <verbatim/objects/classes/open_type.hpp>
#include <verbatim/objects/describe/virtual_tables.hpp>
#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/libstdcxx_values.hpp>

namespace verbatim::objects {

struct OpenGraph;

namespace detail {

template <class Edge>
struct IsDynamicEdge : std::false_type {};
template <class E>
struct IsDynamicEdge<OwnedOne<E>> : std::bool_constant<kIsDynamic<E>> {};
template <class E>
struct IsDynamicEdge<PointerTo<E>> : std::bool_constant<kIsDynamic<E>> {};

template <class Root>
struct IsOpen
    : std::bool_constant<kIsDynamic<Root> ||
                         mp::mp_any_of<typename Closure<Root>::Edges, IsDynamicEdge>::value> {};

// It has walks of its own.
template <>
struct IsOpen<OpenGraph> : std::false_type {};

template <class T>
using IsPolymorphic = std::is_polymorphic<T>;
// Makes the virtual tables of all classes among the types known. Throws Error(unsupported).
template <class Types>
void prepare_tables() {
    using Classes = mp::mp_copy_if<Types, IsPolymorphic>;
    []<class... T>(List<T...>) { (VirtualTables<T>::prepare(), ...); }(Classes{});
}

// Functions of both walks for objects of type E, or of RootOf<E> for a root (open_walks.hpp).
template <class Root>
struct RootOf {};
template <class E>
struct OpenWalks {
    static std::uint64_t take_in(Packing& packing, const std::byte* first, std::uint64_t count);
    static void follow(Packing& packing, const std::byte* first, std::uint64_t count);
    static std::byte* place(Mending& mending, std::uint64_t count);
    static std::byte* place_one(Mending& mending);
};
template <class E>
inline constexpr OpenType kOpenType{&kTypeKey<E>, &OpenWalks<E>::take_in, &OpenWalks<E>::follow,
                                    std::is_abstract_v<E> ? nullptr : &OpenWalks<E>::place,
                                    std::is_abstract_v<E> ? nullptr : &OpenWalks<E>::place_one};

}  // namespace detail

template <class Root>
inline constexpr bool kIsOpen = detail::IsOpen<Root>::value;

// Looked up when the program or library is loaded.
template <class E>
inline const std::uint16_t kOpenNumber = open_type_number(typeid(E), detail::kOpenType<E>);
template <class E>
inline const std::uint16_t kStaticNumber = static_type_number(typeid(E));

// The numbers of the types that objects of a closure may have, in an order that is the same at both
// sides. The root is the first.
template <class Root>
std::span<const std::uint16_t> open_types_of() {
    using Reached = detail::mp::mp_unique<detail::mp::mp_push_front<
        detail::mp::mp_transform<detail::TargetOfEdge, typename Closure<Root>::Edges>, Root>>;
    static const auto numbers = []<class... T>(List<T...>) {
        return std::array<std::uint16_t, sizeof...(T)>{kOpenNumber<T>...};
    }(Reached{});
    return numbers;
}

// The root type of an open graph.
struct OpenRoot {
    std::span<const std::uint16_t> (*types)() = nullptr;
    void (*take_in)(Packing&, const void* root) = nullptr;
    void* (*take)(Mending&) = nullptr;
};
// Stands for all roots of open graphs in the walks' types.
struct OpenGraph {
    const OpenRoot& type;
    const void* object = nullptr;
};

// The part of a Closure that walks need, for graphs without one.
struct OpenClosure {
    static constexpr bool kIsOpen = true;
    static constexpr std::size_t kAlignment = 64, kInnerTypes = 0;
    static constexpr bool kMayHaveCycles = true;

    template <class T>
    static constexpr bool claims() {
        return true;
    }
    // Pointers to objects without references wait until the rest is done: most often those lie in
    // arrays. Others are followed at once. If their target turns out to lie inside another object,
    // the sender begins anew.
    template <class T>
    static constexpr bool is_inner() {
        return !kHasReferences<T> && !kIsDynamic<T> && !std::is_same_v<T, ControlBlock>;
    }
    template <class T>
    static std::uint16_t number_of() noexcept {
        return kOpenNumber<T>;
    }
};
template <class Root>
using ClosureOf =
    typename std::conditional_t<std::is_same_v<Root, OpenGraph>, std::type_identity<OpenClosure>,
                                std::type_identity<Closure<Root>>>::type;

}  // namespace verbatim::objects
