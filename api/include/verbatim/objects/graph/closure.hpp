// The closure of a root type is every type that its graphs can contain. It is known at compile
// time, and so are the types that need the most care: those that several references may lead to.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <boost/mp11.hpp>

#include <verbatim/objects/graph/image.hpp>
#include <verbatim/objects/traits/sent_field.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

namespace mp = boost::mp11;

template <class Edge>
using TargetOfEdge = typename Edge::Target;
template <class T>
using PartsOf = typename TraitOf<T>::Parts;
template <class T>
using EdgesOf = typename TraitOf<T>::Edges;

// Types that a T leads to directly, by value or by reference.
template <class T>
using NextOf = mp::mp_append<PartsOf<T>, mp::mp_transform<TargetOfEdge, EdgesOf<T>>>;

// T. If one of its fields cannot be sent, compilation stops here, before anything else needs it.
template <class T>
using Checked = std::enable_if_t<fields_can_be_sent<T>(), T>;

template <class Done, class Left>
struct Expand;
template <class Done>
struct Expand<Done, List<>> {
    using Type = Done;
};
template <class Done, class T, class... Rest>
struct Expand<Done, List<T, Rest...>> {
    template <class D, bool Known>
    struct Go : Expand<D, List<Rest...>> {};
    template <class D>
    struct Go<D, false>
        : Expand<mp::mp_push_back<D, Checked<T>>, mp::mp_append<NextOf<T>, List<Rest...>>> {};
    using Type = typename Go<Done, mp::mp_set_contains<Done, T>::value>::Type;
};

// One list of the elements of all lists.
template <class Lists>
using Join = mp::mp_apply<mp::mp_append, mp::mp_push_front<Lists, List<>>>;

// All types that lie inside a T by value, T excepted.
template <class T>
struct InsideOf {
    template <class P>
    using AndInside = mp::mp_push_front<typename InsideOf<P>::Type, P>;
    using Type = mp::mp_unique<Join<mp::mp_transform<AndInside, PartsOf<T>>>>;
};
template <class T>
using Inside = typename InsideOf<T>::Type;

template <class Edge>
struct MayBeShared : std::false_type {};
template <class E>
struct MayBeShared<PointerTo<E>> : std::true_type {};
template <class E>
struct MayBeShared<ViewOf<E>> : std::true_type {};
template <class Edge>
struct IsArray : std::false_type {};
template <class E>
struct IsArray<OwnedArray<E>> : std::true_type {};
template <class E>
struct IsArray<ViewOf<E>> : std::true_type {};

// Does the type alone say which objects lie inside a T?
template <class T>
struct IsFixed {
    template <class P>
    using OfPart = IsFixed<P>;
    static constexpr bool value = [] {
        if constexpr (mp::mp_empty<PartsOf<T>>::value)
            return true;
        else if constexpr (requires { TraitOf<T>::kHoldsAllParts; })
            return mp::mp_all_of<PartsOf<T>, OfPart>::value;
        else
            return false;
    }();
};
// Do references of a T itself, or of what lies inside it, share their targets?
template <class T>
struct SharesTargets {
    template <class P>
    using OfPart = SharesTargets<P>;
    static constexpr bool value =
        mp::mp_any_of<EdgesOf<T>, MayBeShared>::value || mp::mp_any_of<PartsOf<T>, OfPart>::value;
};

// Does a T hold a C, or lead to one otherwise than as a text does?
template <class C>
struct HoldsButNoText {
    template <class T>
    using Of = mp::mp_bool<mp::mp_contains<NextOf<T>, C>::value && !std::is_pointer_v<T>>;
};

template <class Edges, template <class> class Predicate>
using TargetsOf = mp::mp_transform<TargetOfEdge, mp::mp_copy_if<Edges, Predicate>>;

}  // namespace detail

// Large arrays of these are copied in excerpts (Staging): so most references of an element can be
// written into its copy, in place of records. The receiver has an element when it comes to it, not
// before: it must know without a look where in the array which objects lie.
template <class E>
inline constexpr bool kLeavesInExcerpts =
    detail::SharesTargets<E>::value&& detail::IsFixed<E>::value &&
    sizeof(E) * kStepObjects <= kSegmentBytes;

template <class Root>
struct Closure {
    static constexpr bool kIsOpen = false;
    using Types = typename detail::Expand<List<>, List<Root>>::Type;
    using Edges =
        detail::mp::mp_unique<detail::Join<detail::mp::mp_transform<detail::EdgesOf, Types>>>;
    // Targets of references that need not be the only ones.
    using Shared = detail::mp::mp_unique<detail::TargetsOf<Edges, detail::MayBeShared>>;
    // Types that occur inside others: of members, elements, values of nodes.
    using ByValue = detail::mp::mp_unique<
        detail::mp::mp_append<detail::Join<detail::mp::mp_transform<detail::PartsOf, Types>>,
                              detail::TargetsOf<Edges, detail::IsArray>>>;

    template <class P>
    using IsShared = detail::mp::mp_contains<Shared, P>;
    template <class T>
    using IsClaimed =
        detail::mp::mp_bool<IsShared<T>::value ||
                            detail::mp::mp_any_of<detail::Inside<T>, IsShared>::value>;
    // Types whose objects more than one reference may lead to, or into.
    using Claimed = detail::mp::mp_copy_if<Types, IsClaimed>;
    // Shared types whose objects may lie inside others: a pointer may lead to one before anything
    // has led to the whole.
    template <class P>
    using IsInner = detail::mp::mp_contains<ByValue, P>;
    using Inner = detail::mp::mp_copy_if<Shared, IsInner>;

    // Characters that texts alone lead to, and nothing holds by value.
    template <class C>
    static constexpr bool is_of_texts() {
        return !detail::mp::mp_any_of<Types, detail::HoldsButNoText<C>::template Of>::value;
    }

    // That of the most demanding type.
    static constexpr std::size_t kAlignment = []<class... T>(List<T...>) {
        return std::max({std::size_t{kImageGranule}, alignof(T)...});
    }(Types{});
    static_assert(kAlignment <= 4096, "verbatim: types are aligned to a page at most");
    static constexpr std::size_t kInnerTypes = detail::mp::mp_size<Inner>::value;
    // An owner leads to no cycle: only what others refer to as well can lead to itself.
    static constexpr bool kMayHaveCycles = !detail::mp::mp_empty<Shared>::value;
    static_assert(detail::mp::mp_size<Claimed>::value < 0x7fff, "verbatim: too many types");

    template <class T>
    static constexpr bool claims() {
        return detail::mp::mp_contains<Claimed, T>::value;
    }
    template <class T>
    static constexpr bool is_inner() {
        return detail::mp::mp_contains<Inner, T>::value;
    }
    // From 1 on, in the same order at both sides.
    template <class T>
    static constexpr std::uint16_t number_of() {
        return static_cast<std::uint16_t>(detail::mp::mp_find<Claimed, T>::value + 1);
    }
    template <class T>
    static constexpr std::size_t inner_index_of() {
        return detail::mp::mp_find<Inner, T>::value;
    }
    // Inner types, those first that can hold others. An object is larger than what it holds.
    static constexpr auto inner_order() {
        std::array<std::size_t, kInnerTypes> order{};
        if constexpr (kInnerTypes > 0) {
            const auto sizes = []<class... T>(List<T...>) {
                return std::array<std::size_t, kInnerTypes>{sizeof(T)...};
            }(Inner{});
            for (std::size_t i = 0; i < kInnerTypes; ++i) order[i] = i;
            for (std::size_t i = 1; i < kInnerTypes; ++i)
                for (std::size_t j = i; j > 0 && sizes[order[j - 1]] < sizes[order[j]]; --j)
                    std::swap(order[j - 1], order[j]);
        }
        return order;
    }
};

}  // namespace verbatim::objects
