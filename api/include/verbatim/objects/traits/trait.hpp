// A trait says of one type how its objects are sent. It tells what they hold by value and what they
// refer to, how a copy is packed into an image, and how the copy becomes an object again. Each
// supported type has its trait in a file of its own in ../types/ (docs/objects.md
// shows how to add one).
//
// Trait<T> has
//   using Parts = List<...>      types that a T holds by value
//   using Edges = List<...>      what it refers to itself, by the templates below
//   kHoldsAllParts               optional: its parts are there whatever its bytes are
//   kPlain                       any bytes are a valid T, which refers to nothing
//   std::string spell()          its name in layouts: "vector<Point>"
//   TypeInfo info()              its layout
//   pack(sender, object, slot)   if it, or one of its parts, refers to something
//   mend(receiver, object)       unless it is plain; `object` are bytes from the peer
// Both functions must meet the same references in the same order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <boost/mp11.hpp>

#include <verbatim/objects/spelling.hpp>
#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

template <class... T>
using List = boost::mp11::mp_list<T...>;

// A reference to objects of type E. Owned: nothing else refers to them but pointers and views.
template <class E>
struct OwnedOne {
    using Target = E;
};
template <class E>
struct OwnedArray {
    using Target = E;
};
// To one object, which others may refer to as well.
template <class E>
struct PointerTo {
    using Target = E;
};
// To objects side by side that others may refer to, too: counted pointers, spans.
template <class E>
struct ViewOf {
    using Target = E;
};

// The place of an object in the image.
struct Slot {
    std::uint64_t offset = 0;

    Slot at(std::size_t delta) const noexcept { return {offset + delta}; }
};

// The trait of unsupported types: stops compilation with a sentence.
template <class T>
struct Trait;

// The trait of T, whatever its qualifiers.
template <class T>
using TraitOf = Trait<std::remove_cv_t<T>>;

// The trait of a type that is sent as it is, but for its name.
struct PlainTrait {
    using Parts = List<>;
    using Edges = List<>;
    static constexpr bool kPlain = true;
    static TypeInfo info() { return {}; }
};

// True if a pointer to T may lead to an object of a class derived from it.
template <class T>
inline constexpr bool kIsDynamic = std::is_polymorphic_v<T> && !std::is_final_v<T>;

namespace detail {

template <class T>
struct HasReferences {
    template <class P>
    using OfPart = HasReferences<P>;
    static constexpr bool value = !boost::mp11::mp_empty<typename TraitOf<T>::Edges>::value ||
                                  boost::mp11::mp_any_of<typename TraitOf<T>::Parts, OfPart>::value;
};

template <class T>
struct LeadsOn {
    template <class Edge>
    using ToReferences = boost::mp11::mp_bool<HasReferences<typename Edge::Target>::value ||
                                              kIsDynamic<typename Edge::Target>>;
    template <class P>
    using OfPart = LeadsOn<P>;
    static constexpr bool value =
        boost::mp11::mp_any_of<typename TraitOf<T>::Edges, ToReferences>::value ||
        boost::mp11::mp_any_of<typename TraitOf<T>::Parts, OfPart>::value;
};

}  // namespace detail

// True if objects of T refer to other objects.
template <class T>
inline constexpr bool kHasReferences = detail::HasReferences<T>::value;
// True if what a T refers to has references of its own.
template <class T>
inline constexpr bool kLeadsOn = detail::LeadsOn<T>::value;
// True if every sequence of bytes is a valid T that refers to nothing.
template <class T>
inline constexpr bool kPlain = TraitOf<T>::kPlain;

// Walks over composed messages (docs/composed.md), where references are addresses. Traits that own
// objects serve them if they have a kTellsAddresses. With a kCanFetch they also have
// fetch(walk, object), which tells the walk by fetch_owned() what it will look at soon.
template <class Walk>
concept ByAddress = requires {
    Walk::kByAddress;
};
// The objects that a container owns, for a mend(). `address`: where its bytes say that they are.
template <class E, class R>
[[gnu::always_inline]] inline E* owned_at(R& receiver, std::uint64_t count, const void* address) {
    if constexpr (ByAddress<R>)
        return receiver.template owned<E>(count, address);
    else
        return receiver.template owned<E>(count);
}
// True: the walk knows without a look that a container has its elements in a composed message.
template <bool Polymorphic, class E, class S>
[[gnu::always_inline]] inline bool knows_array(S& sender, const auto& container) {
    if constexpr (Polymorphic && requires { sender.template knows_array<E>(container); })
        return sender.template knows_array<E>(container);
    else
        return false;
}
// The lines of a large object, of which a walk waits for each.
template <class E>
[[gnu::always_inline]] inline void fetch_object(const std::byte* object) noexcept {
    constexpr std::size_t kLine = 64, kMost = 1024;
    if constexpr (sizeof(E) > 2 * kLine && sizeof(E) <= kMost)
        for (std::size_t at = 0; at < sizeof(E); at += kLine) __builtin_prefetch(object + at);
}
// Objects side by side, which the receiver has.
template <class E, class R>
[[gnu::always_inline]] inline void mend_objects(R& receiver, E* first, std::uint64_t count) {
    if constexpr (requires { TraitOf<E>::mend_many(receiver, first, count); })
        TraitOf<E>::mend_many(receiver, first, count);
    else
        for (std::uint64_t i = 0; i < count; ++i) TraitOf<E>::mend(receiver, first[i]);
}
namespace detail {

// A field that leads to an object of any class, unless it is null.
template <class T>
struct IsClassPointer : std::false_type {};
template <class E>
struct IsClassPointer<E*> : std::bool_constant<kIsDynamic<E>> {};
template <class E, class D>
struct IsClassPointer<std::unique_ptr<E, D>> : std::bool_constant<kIsDynamic<E>> {};
// Are all references of a T such fields, in it or in parts that are always there?
template <class T>
struct RefersByClassPointers {
    template <class P>
    using OfPart = RefersByClassPointers<P>;
    static constexpr bool value = [] {
        if constexpr (IsClassPointer<T>::value || !kHasReferences<T>)
            return true;
        else if constexpr (requires { TraitOf<T>::kHoldsAllParts; })
            return boost::mp11::mp_empty<typename TraitOf<T>::Edges>::value &&
                   boost::mp11::mp_all_of<typename TraitOf<T>::Parts, OfPart>::value;
        return false;
    }();
};
// Does any of these fields lead anywhere?
template <class T>
[[gnu::always_inline]] inline bool holds_pointer(const T& object) {
    bool holds = false;
    if constexpr (IsClassPointer<T>::value) {
        std::uint64_t word = 0;
        std::memcpy(&word, static_cast<const void*>(&object), sizeof word);
        holds = word != 0;
    } else if constexpr (requires { typename TraitOf<T>::ListedParts; }) {
        using Listed = typename TraitOf<T>::ListedParts;
        [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
            ((holds |= holds_pointer(Listed::template get<I>(object))), ...);
        }
        (typename TraitOf<T>::Indices{});
    } else if constexpr (kHasReferences<T>) {
        for (const auto& element : object) holds |= holds_pointer(element);
    }
    return holds;
}

}  // namespace detail

// Objects that both walks pass by if nothing in them is to be followed.
template <class T>
inline constexpr bool kMayLeadNowhere = requires {
    requires TraitOf<T>::kMayLeadNowhere;
};
template <class T>
[[gnu::always_inline]] inline bool leads_nowhere([[maybe_unused]] const T& object) {
    if constexpr (kMayLeadNowhere<T>) return TraitOf<T>::leads_nowhere(object);
    return false;
}

// An object that leads nowhere. A call: what it does may lead here again, by types.
template <class R, class E>
[[gnu::noinline]] void mend_beside_pointers(R& receiver, E& object) {
    TraitOf<E>::mend(receiver, object);
}
template <class R, class E>
[[gnu::always_inline]] inline void mend_leaf(R& receiver, E& object) {
    if constexpr (!TraitOf<E>::kHoldsPointersOnly) mend_beside_pointers(receiver, object);
}

// A step of a walk takes at most so many objects: how much is done between two looks at what has
// come, or must go.
inline constexpr std::uint64_t kStepObjects = 64;

// Granules of the image that an object takes by itself.
template <class E>
inline constexpr std::uint64_t kGranules = (sizeof(E) + 15) / 16;

namespace detail {

template <class T>
inline constexpr TypeFacts kTypeFacts{.spelled = &TraitOf<T>::spell,
                                      .id = &typeid(T),
                                      .bytes = sizeof(T),
                                      .alignment = alignof(T),
                                      .is_empty = std::is_empty_v<T>,
                                      .is_polymorphic = std::is_polymorphic_v<T>,
                                      .is_dynamic = kIsDynamic<T>};
template <class T>
inline constinit std::atomic<const TypeInfo*> made_info{nullptr};

}  // namespace detail

template <class T>
const TypeInfo& type_info() {
    const TypeInfo* const made = detail::made_info<T>.load(std::memory_order_acquire);
    if (made != nullptr) return *made;
    return make_info(detail::made_info<T>, &TraitOf<T>::info, detail::kTypeFacts<T>);
}

}  // namespace verbatim::objects
