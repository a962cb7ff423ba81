// Clone kinds tell how an object of a type is cloned, and which types it leads to. They are known
// at compile time, also of classes that no program ever clones: what cannot be cloned is no error
// here.
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <forward_list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <boost/mp11.hpp>

#include <verbatim/objects/describe/virtual_tables.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim::objects::detail {

struct NoCloneKind {
    static constexpr bool kUnique = false, kShared = false, kWeak = false, kSelf = false;
    static constexpr bool kOptional = false, kVariant = false;
    static constexpr bool kString = false, kChain = false, kCounted = false;
    using Target = void;
};
template <class T>
struct CloneKind : NoCloneKind {};
template <class T, class D>
struct CloneKind<std::unique_ptr<T, D>> : NoCloneKind {
    static constexpr bool kUnique = true;
    using Target = std::remove_cv_t<T>;
    static constexpr bool kIsPlain = std::is_same_v<D, std::default_delete<T>>;
};
template <class T>
struct CloneKind<std::shared_ptr<T>> : NoCloneKind {
    static constexpr bool kShared = true;
    using Target = std::remove_cv_t<T>;
};
template <class T>
struct CloneKind<std::weak_ptr<T>> : NoCloneKind {
    static constexpr bool kWeak = true;
    using Target = std::remove_cv_t<T>;
};
// Empty until a shared_ptr owns the object.
template <class T>
struct CloneKind<std::enable_shared_from_this<T>> : NoCloneKind {
    static constexpr bool kSelf = true;
};
template <class T>
struct CloneKind<std::optional<T>> : NoCloneKind {
    static constexpr bool kOptional = true;
    using Next = List<std::remove_cv_t<T>>;
};
template <class... T>
struct CloneKind<std::variant<T...>> : NoCloneKind {
    static constexpr bool kVariant = true;
    using Next = List<std::remove_cv_t<T>...>;
};
template <class C, class A>
struct CloneKind<std::basic_string<C, std::char_traits<C>, A>> : NoCloneKind {
    static constexpr bool kString = true;
};
template <>
struct CloneKind<std::filesystem::path> : NoCloneKind {
    static constexpr bool kString = true;
};
template <class T, class A>
struct CloneKind<std::forward_list<T, A>> : NoCloneKind {
    static constexpr bool kChain = true;
};
template <class E, class D>
struct CloneKind<CountedMember<std::unique_ptr<E[], D>>> : NoCloneKind {
    static constexpr bool kCounted = true;
    using Next = List<std::remove_cv_t<E>>;
    static constexpr bool kIsMade = std::is_same_v<D, std::default_delete<E[]>> &&
                                    std::is_default_constructible_v<E> &&
                                    std::is_move_assignable_v<E>;
};

// Refers to what it need not own.
template <class Edge>
struct IsNoOwner : std::false_type {};
template <class E>
struct IsNoOwner<PointerTo<E>> : std::true_type {};
template <class E>
struct IsNoOwner<ViewOf<E>> : std::true_type {};
template <class T>
inline constexpr bool kLacksOwner =
    boost::mp11::mp_any_of<typename TraitOf<T>::Edges, IsNoOwner>::value;

// A weak pointer leads to what others own.
template <class T>
inline constexpr bool kIsOwner =
    CloneKind<T>::kUnique || CloneKind<T>::kShared || CloneKind<T>::kWeak;
// What it leads to, without a count: the graph may be one that is read only.
template <class T>
const T* target_of(const std::weak_ptr<T>& pointer) noexcept {
    const CountedPointerImage image = objects::image_of(pointer);
    return has_expired(image) ? nullptr : reinterpret_cast<const T*>(image.target);
}
// Its memory holds zeros before it is made, and so an empty std::enable_shared_from_this.
template <class T>
struct GivesItself {
    template <class P>
    using OfPart = GivesItself<P>;
    static constexpr bool value =
        CloneKind<T>::kSelf || boost::mp11::mp_any_of<typename TraitOf<T>::Parts, OfPart>::value;
};
// Its bytes are its value.
template <class T>
inline constexpr bool kIsCopied = !kHasReferences<T> && std::is_trivially_copyable_v<T>;
template <class T>
concept ClonedProduct = requires {
    typename TraitOf<T>::ListedParts;
};
template <class T>
inline constexpr bool kIsClonedArray = std::is_array_v<T> || requires {
    std::tuple_size<T>::value;
};
template <class T>
concept ClonedMap = requires {
    typename T::mapped_type;
};
template <class T>
concept ClonedSet = requires {
    typename T::key_type;
};
template <class T>
concept ClonedSequence = requires(T& to, typename T::value_type&& value) {
    to.push_back(std::move(value));
};

// A class that has a virtual table, none of whose bases has one.
template <class T>
inline constexpr bool kHasFirstTable = [] {
    if constexpr (std::is_polymorphic_v<T>)
        return boost::mp11::mp_empty<typename VirtualTables<T>::Bases>::value;
    return false;
}();

// The types that a T leads to and whose clones are made by the code for T. Those of pointers to
// base classes are not among them: their classes make them.
template <class T>
constexpr auto cloned_next() {
    using Kind = CloneKind<T>;
    if constexpr (kIsOwner<T>) {
        if constexpr (kIsDynamic<typename Kind::Target>)
            return List<>{};
        else
            return List<typename Kind::Target>{};
    } else if constexpr (requires { typename Kind::Next; }) {
        return typename Kind::Next{};
    } else if constexpr (kIsCopied<T> || Kind::kString || Kind::kSelf) {
        return List<>{};
    } else if constexpr (ClonedProduct<T> || kIsClonedArray<T>) {
        return typename TraitOf<T>::Parts{};
    } else if constexpr (ClonedMap<T>) {
        return List<typename T::key_type, typename T::mapped_type>{};
    } else if constexpr (requires { typename T::value_type; }) {
        return List<std::remove_cv_t<typename T::value_type>>{};
    } else {
        return List<>{};
    }
}
template <class Done, class Left>
struct ClonedReach;
template <class Done>
struct ClonedReach<Done, List<>> {
    using Type = Done;
};
template <class Done, class T, class... Rest>
struct ClonedReach<Done, List<T, Rest...>> {
    template <class D, bool Known>
    struct Go : ClonedReach<D, List<Rest...>> {};
    template <class D>
    struct Go<D, false>
        : ClonedReach<boost::mp11::mp_push_back<D, T>,
                      boost::mp11::mp_append<decltype(cloned_next<T>()), List<Rest...>>> {};
    using Type = typename Go<Done, boost::mp11::mp_set_contains<Done, T>::value>::Type;
};
// T, and all types whose clones are made by its code.
template <class T>
using ClonedTypes = typename ClonedReach<List<>, List<T>>::Type;

template <class T>
struct OwnsOfAnyClass
    : std::bool_constant<kIsOwner<T> && kIsDynamic<typename CloneKind<T>::Target>> {};
// An owner in it may lead to an object of any registered class.
template <class T>
inline constexpr bool kMeetsClasses = boost::mp11::mp_any_of<ClonedTypes<T>, OwnsOfAnyClass>::value;

// Containers take their elements from a place where they were made.
template <class... T>
constexpr bool are_moved(List<T...>) {
    return (std::is_move_constructible_v<T> && ...);
}
template <class T>
inline constexpr bool kIsFilled =
    ClonedMap<T> || ClonedSet<T> || CloneKind<T>::kChain || ClonedSequence<T>;
// A pointer to a base must end the whole object.
template <class T>
inline constexpr bool kCanBeDeleted = std::is_destructible_v<T> &&
                                      (!kIsDynamic<T> || std::has_virtual_destructor_v<T>);
template <class T>
constexpr bool is_cloned() {
    using Kind = CloneKind<T>;
    if constexpr (Kind::kUnique)
        return Kind::kIsPlain && kCanBeDeleted<typename Kind::Target>;
    else if constexpr (Kind::kCounted)
        return Kind::kIsMade;
    else if constexpr (Kind::kShared || Kind::kWeak || Kind::kSelf)
        return true;
    else if constexpr (kIsCopied<T> || ClonedProduct<T> || kIsClonedArray<T>)
        return true;
    else if constexpr (kLacksOwner<T>)
        return false;
    else if constexpr (Kind::kString)
        return true;
    else
        return (Kind::kOptional || Kind::kVariant || kIsFilled<T>)&&are_moved(cloned_next<T>());
}
template <class T>
struct IsCloned : std::bool_constant<is_cloned<T>()> {};
// False: the code that clones a T would not compile.
template <class T>
inline constexpr bool kCanBeCloned =
    kCanBeDeleted<T>&& boost::mp11::mp_all_of<ClonedTypes<T>, IsCloned>::value;

// An object that is made in place, and moved from there.
template <class T>
struct Made {
    Made() noexcept {
        if constexpr (GivesItself<T>::value) std::memset(bytes, 0, sizeof bytes);
    }
    ~Made() { value().~T(); }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;
    T& value() noexcept { return *std::launder(reinterpret_cast<T*>(bytes)); }
    alignas(T) std::byte bytes[sizeof(T)];
};

}  // namespace verbatim::objects::detail
