// Products hold parts of different types at fixed places: classes of the program, tuples. This is
// also the trait of every type that no file of ../types/ knows: its members are found
// (describe/members.hpp), or compilation stops with a sentence.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <verbatim/objects/describe/members.hpp>
#include <verbatim/objects/describe/type_name.hpp>
#include <verbatim/objects/describe/virtual_tables.hpp>
#include <verbatim/objects/traits/marked.hpp>
#include <verbatim/objects/traits/sent_field.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

// Offsets are taken from storage in which no object was ever made: only addresses are formed.
template <class T>
struct Unmade {
    alignas(T) std::byte bytes[sizeof(T)];

    const T& value() const noexcept { return *reinterpret_cast<const T*>(bytes); }
};

// For the parts of a standard type, which add get<I>(object).
template <std::size_t Count>
struct NamelessParts {
    static constexpr std::size_t kCount = Count;
    template <std::size_t>
    static constexpr std::string_view name() noexcept {
        return {};
    }
    template <std::size_t>
    static constexpr bool is_counted() noexcept {
        return false;
    }
    template <std::size_t>
    static constexpr std::uint64_t count(const auto&) noexcept {
        return 0;
    }
};

// `Listed` has kCount, get<I>(object), name<I>(), is_counted<I>(), count<I>(object).
template <class T, class Listed>
struct ProductTrait {
    using ListedParts = Listed;
    template <std::size_t I>
    using Part = std::remove_cvref_t<decltype(Listed::template get<I>(std::declval<T&>()))>;
    using Indices = std::make_index_sequence<Listed::kCount>;
    template <std::size_t... I>
    static auto parts_of(std::index_sequence<I...>) -> List<Part<I>...>;

    using Parts = decltype(parts_of(Indices{}));
    using Edges = List<>;
    static constexpr bool kHoldsAllParts = true;
    template <class P>
    using IsPlain = std::bool_constant<verbatim::objects::kPlain<P>>;
    static constexpr bool kPlain = boost::mp11::mp_all_of<Parts, IsPlain>::value;

    static TypeInfo info() {
        TypeInfo info;
        Unmade<T> storage;
        each([&]<std::size_t I>() {
            const auto& part = Listed::template get<I>(storage.value());
            static_assert(!std::is_volatile_v<std::remove_reference_t<decltype(part)>>,
                          "verbatim: volatile members cannot be sent");
            add_part(
                info, Listed::template name<I>(),
                static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&part) - storage.bytes),
                &type_info<Part<I>>, is_base<I>());
        });
        return info;
    }
    template <class S>
    [[gnu::always_inline]] static void pack(S& sender, const T& object, Slot slot) {
        if constexpr (requires { &S::template fetch_owned<T>; }) fetch_owned(sender, object);
        each_of_walk([&]<std::size_t I>() __attribute__((always_inline)) {
            if constexpr (kHasReferences<Part<I>>) {
                const auto& part = Listed::template get<I>(object);
                const auto delta = reinterpret_cast<const std::byte*>(&part) -
                                   reinterpret_cast<const std::byte*>(&object);
                const Slot at = slot.at(static_cast<std::size_t>(delta));
                if constexpr (Listed::template is_counted<I>())
                    TraitOf<Part<I>>::pack(sender, part, at, Listed::template count<I>(object));
                else
                    TraitOf<Part<I>>::pack(sender, part, at);
            }
        });
    }
    template <class R>
    [[gnu::always_inline]] static void mend(R& receiver, T& object) {
        if constexpr (ByAddress<R>) fetch_owned(receiver, object);
        each_of_walk([&]<std::size_t I>() __attribute__((always_inline)) {
            if constexpr (!verbatim::objects::kPlain<Part<I>>) {
                auto& part = const_cast<Part<I>&>(Listed::template get<I>(object));
                if constexpr (Listed::template is_counted<I>())
                    TraitOf<Part<I>>::mend(receiver, part, Listed::template count<I>(object));
                else if constexpr (is_base<I>() && std::is_polymorphic_v<Part<I>>)
                    TraitOf<Part<I>>::mend_base(receiver, part);
                else
                    TraitOf<Part<I>>::mend(receiver, part);
            }
        });
    }

    // Raw pointers among the parts, which a walk fetches ahead.
    template <class P>
    using IsPointer = std::is_pointer<P>;
    static constexpr std::size_t kParts = Listed::kCount;
    static constexpr std::size_t kPointers = boost::mp11::mp_count_if<Parts, IsPointer>::value;
    // Calls with the number of the part and the pointer.
    template <class Call>
    [[gnu::always_inline]] static void each_pointer(const T& object, Call&& call) {
        each([&]<std::size_t I>() __attribute__((always_inline)) {
            if constexpr (std::is_pointer_v<Part<I>>)
                call.template operator()<I>(Listed::template get<I>(object));
        });
    }
    // The same, in the order of a walk.
    template <class Call>
    [[gnu::always_inline]] static void each_pointer_of_walk(const T& object, Call&& call) {
        each_of_walk([&]<std::size_t I>() __attribute__((always_inline)) {
            if constexpr (std::is_pointer_v<Part<I>>)
                call.template operator()<I>(Listed::template get<I>(object));
        });
    }

    // Calls with what a pointer leads to, and the offset of the pointer.
    template <class Call>
    static void each_pointer_type(Call&& call) {
        Unmade<T> storage;
        each([&]<std::size_t I>() {
            if constexpr (std::is_pointer_v<Part<I>>) {
                const auto& part = Listed::template get<I>(storage.value());
                const auto delta = reinterpret_cast<const std::byte*>(&part) - storage.bytes;
                call.template operator()<std::remove_cv_t<std::remove_pointer_t<Part<I>>>>(
                    static_cast<std::size_t>(delta));
            }
        });
    }

    template <class P>
    using IsPointerOrPlain =
        std::bool_constant<std::is_pointer_v<P> || verbatim::objects::kPlain<P>>;
    static constexpr bool kHoldsPointersOnly =
        kPointers > 0 && boost::mp11::mp_all_of<Parts, IsPointerOrPlain>::value;
    // No part but raw pointers refers to others: where all are null, no step of a walk is made.
    // Leaves are common where objects have several; of one it is not worth the look. What is
    // checked does not matter: the other side may check otherwise.
    template <class P>
    using IsPointerOrLeaf = std::bool_constant<std::is_pointer_v<P> || !kHasReferences<P>>;
    static constexpr bool kMayLeadNowhere =
        kPointers > 1 && boost::mp11::mp_all_of<Parts, IsPointerOrLeaf>::value;
    [[gnu::always_inline]] static bool leads_nowhere(const T& object) {
        bool leads = false;
        each_pointer(
            object, [&]<std::size_t>(const auto* target)
                        __attribute__((always_inline)) { leads = leads || target != nullptr; });
        return !leads;
    }

  private:
    template <class P>
    struct Owns {
        static constexpr bool value = requires { TraitOf<P>::kCanFetch; };
    };
    // What several parts own lies anywhere: fetched at once, else each would be waited for.
    template <class R>
    [[gnu::always_inline]] static void fetch_owned(const R& receiver, const T& object) {
        if constexpr (boost::mp11::mp_count_if<Parts, Owns>::value > 1)
            each([&]<std::size_t I>() __attribute__((always_inline)) {
                if constexpr (Owns<Part<I>>::value)
                    TraitOf<Part<I>>::fetch(receiver, Listed::template get<I>(object));
            });
    }
    template <std::size_t I>
    static constexpr bool is_base() noexcept {
        if constexpr (requires { Listed::is_base(I); }) return Listed::is_base(I);
        return false;
    }
    template <class Call>
    [[gnu::always_inline]] static void each(Call&& call) {
        [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
            (call.template operator()<I>(), ...);
        }
        (Indices{});
    }
    // Parts that lead on come last, from the last to the first: so the walk goes on with the first
    // of them, as programs do that make their graphs depth first.
    template <class Call>
    [[gnu::always_inline]] static void each_of_walk(Call&& call) {
        each([&]<std::size_t I>() __attribute__((always_inline)) {
            if constexpr (!kLeadsOn<Part<I>>) call.template operator()<I>();
        });
        each([&]<std::size_t I>() __attribute__((always_inline)) {
            constexpr std::size_t kBackwards = Listed::kCount - 1 - I;
            if constexpr (kLeadsOn<Part<kBackwards>>) call.template operator()<kBackwards>();
        });
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

// Stops compilation with one sentence if not.
template <class T>
consteval bool is_class_of_the_program() {
    constexpr bool is_class = std::is_class_v<T> || std::is_union_v<T>;
    constexpr bool is_standard = is_class && !Described<T> && names_standard_class<T>();
    static_assert(is_class,
                  "verbatim: this type cannot be sent (references, member pointers and nullptr_t "
                  "have no meaning elsewhere; __int128 and vector types are no numbers of C++)");
    static_assert(!is_standard,
                  "verbatim: this standard type cannot be sent; docs/objects.md lists those that "
                  "can, and shows how to add a trait");
    if constexpr (is_class && !is_standard)
        return members_are_known__else_add_VERBATIM_DESCRIBE<T>();
    else
        return false;
}

// Of a type that was refused: no further errors shall hide the first.
template <class T, bool = is_class_of_the_program<T>()>
struct ClassTrait : PlainTrait {
    using Fields = List<>;
};
template <class T>
struct ClassTrait<T, true> : ProductTrait<T, MarkedMembers<T>> {
    using Product = ProductTrait<T, MarkedMembers<T>>;
    using Fields = typename FieldsOf<T, Product>::Type;
    static constexpr bool kPlain = !Validated<T> && !std::is_polymorphic_v<T> && Product::kPlain;
    static constexpr bool kHoldsPointersOnly =
        !Validated<T> && !std::is_polymorphic_v<T> && Product::kHoldsPointersOnly;
    // So may polymorphic objects, if all that they refer to are objects of any class.
    static constexpr bool kMayLeadNowhere = [] {
        if constexpr (std::is_polymorphic_v<T>)
            return kHasReferences<T> && RefersByClassPointers<T>::value;
        else
            return Product::kMayLeadNowhere;
    }();
    [[gnu::always_inline]] static bool leads_nowhere(const T& object) {
        if constexpr (std::is_polymorphic_v<T>)
            return !holds_pointer(object);
        else
            return Product::leads_nowhere(object);
    }
    static TypeInfo info() {
        TypeInfo info = Product::info();
        info.is_class = true;
        if constexpr (kHasOwnTable) add_part(info, "(virtual table)", 0, &virtual_table_info);
        return info;
    }
    template <class R>
    [[gnu::always_inline]] static void mend(R& receiver, T& object) {
        if constexpr (std::is_polymorphic_v<T>) VirtualTables<T>::write(object);
        mend_base(receiver, object);
    }
    // The object is a part of a derived one, whose tables it has.
    template <class R>
    [[gnu::always_inline]] static void mend_base(R& receiver, T& object) {
        Product::mend(receiver, object);
        if constexpr (Validated<T>) receiver.validate_later(&object, &is_valid<T>);
    }

  private:
    static constexpr bool kHasOwnTable = [] {
        if constexpr (std::is_polymorphic_v<T>)
            return boost::mp11::mp_empty<typename VirtualTables<T>::Bases>::value;
        return false;
    }();
};

}  // namespace detail

template <class T>
struct Trait : detail::ClassTrait<T> {
    static std::string spell() { return type_name<T>(); }
};

}  // namespace verbatim::objects
