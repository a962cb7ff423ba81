// Raw pointers to one object: shared, cyclic, to the inside of objects, or null.
#pragma once

#include <string>
#include <type_traits>

#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

namespace detail {

template <class T>
concept Complete = std::is_void_v<T> || std::is_function_v<T> || requires {
    sizeof(T);
};

}  // namespace detail

template <class T>
struct Trait<T*> {
    static_assert(detail::Complete<T>,
                  "verbatim: a pointer to a class that is only declared here cannot be sent; "
                  "include its definition, or mark the member as transient");
    static_assert(!std::is_function_v<T>,
                  "verbatim: a function pointer means nothing in another process; send an index or "
                  "a name");
    static_assert(!std::is_void_v<T>,
                  "verbatim: a void pointer does not say what it points to; use a typed pointer");
    static_assert(!std::is_volatile_v<T>, "verbatim: volatile objects cannot be sent");
    using Target = std::remove_cv_t<T>;
    using Parts = List<>;
    using Edges = List<PointerTo<Target>>;
    static constexpr bool kPlain = false;
    static std::string spell() { return spell_template("pointer", {&TraitOf<T>::spell}); }
    static TypeInfo info() { return info_of_reference(&type_info<Target>); }
    template <class S>
    [[gnu::always_inline]] static void pack(S& sender, T* const& pointer, Slot slot) {
        sender.template pointer<Target>(pointer, slot);
    }
    template <class R>
    [[gnu::always_inline]] static void mend(R& receiver, T*& pointer) {
        receiver.template pointer<Target>(&pointer);
    }
    template <class S>
    static void pack_many(S& sender, T* const* first, std::uint64_t count, Slot slot) {
        sender.pointers(first, count, slot);
    }
    template <class R>
    static void mend_many(R& receiver, T** first, std::uint64_t count) {
        receiver.pointers(first, count);
    }
};

}  // namespace verbatim::objects
