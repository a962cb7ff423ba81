// The virtual tables of a class: their addresses in this process, one for each of its subobjects
// that has one. The receiver writes them into every object that it is sent; those of the sender are
// never used. They are read from a prototype, an object that is made when they are first needed and
// never ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <typeinfo>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include <verbatim/objects/describe/members.hpp>

// VERBATIM_PROTOTYPE(Type, argument...): the prototype of a class without a default constructor, or
// with one that has effects, is made with these arguments. Stands behind the description.
#define VERBATIM_PROTOTYPE(Type, ...)                                                              \
    [[maybe_unused]] inline void verbatim_prototype(std::type_identity<Type>, void* verbatim_at) { \
        ::new (verbatim_at) Type(__VA_ARGS__);                                                     \
    }

namespace verbatim::objects {

// Room for the addresses of so many tables of a class: the same in every library of the process.
const void** virtual_tables_of(const std::type_info& id, std::size_t count);
// Calls `learn`, which makes a prototype and reads its tables. One thread at a time. Throws
// Error(unsupported): it threw.
void learn_virtual_tables(const std::type_info& id, void (*learn)());

namespace detail {

template <class T>
concept HasPrototype = requires(void* at) {
    verbatim_prototype(std::type_identity<T>{}, at);
};

template <class T>
struct VirtualTables {
    template <class Base>
    using IsPolymorphic = std::is_polymorphic<typename Base::type>;
    // Where there is such a base, the first of them shares its table with the class.
    using Bases =
        boost::mp11::mp_copy_if<boost::describe::describe_bases<T, boost::describe::mod_any_access>,
                                IsPolymorphic>;
    static constexpr std::size_t kCount = []<class... Base>(boost::mp11::mp_list<Base...>) {
        return sizeof...(Base) == 0 ? 1 : (VirtualTables<typename Base::type>::kCount + ... + 0);
    }(boost::mp11::mp_rename<Bases, boost::mp11::mp_list>{});

    // The addresses of all fields of the object that hold one.
    template <class Call>
    [[gnu::always_inline]] static void each_field(std::byte* object, Call&& call) {
        if constexpr (boost::mp11::mp_empty<Bases>::value)
            call(object);
        else
            boost::mp11::mp_for_each<boost::mp11::mp_transform<std::type_identity, Bases>>([&](
                auto base) __attribute__((always_inline)) {
                using Base = typename decltype(base)::type::type;
                T& whole = *reinterpret_cast<T*>(object);
                auto* const part = reinterpret_cast<std::byte*>(&base_of<Base>(whole));
                VirtualTables<Base>::each_field(part, call);
            });
    }
    // Of an abstract class there are none, and nothing is written.
    [[gnu::always_inline]] static void write(T& object) {
        if constexpr (!std::is_abstract_v<T>) {
            const void** next = kRoom;
            each_field(reinterpret_cast<std::byte*>(&object),
                       [&](std::byte* field) { std::memcpy(field, next++, sizeof(void*)); });
        }
    }
    // To be called before write(). Throws Error(unsupported).
    static void prepare() {
        if constexpr (!std::is_abstract_v<T>) {
            static std::atomic<bool> is_known{false};
            if (is_known.load(std::memory_order_acquire)) return;
            learn_virtual_tables(typeid(T), &learn);
            is_known.store(true, std::memory_order_release);
        }
    }

  private:
    static inline const void** const kRoom = virtual_tables_of(typeid(T), kCount);

    static void learn() {
        static_assert(HasPrototype<T> || std::is_default_constructible_v<T>,
                      "verbatim: this class has virtual functions and no public default "
                      "constructor; add VERBATIM_PROTOTYPE(Type, argument, ...) after its "
                      "description, so that the receiver can make one object of it");
        alignas(T) static std::byte prototype[sizeof(T)];
        if constexpr (HasPrototype<T>)
            verbatim_prototype(std::type_identity<T>{}, prototype);
        else
            ::new (static_cast<void*>(prototype)) T();
        const void** next = kRoom;
        each_field(prototype, [&](std::byte* field) { std::memcpy(next++, field, sizeof(void*)); });
    }
};

}  // namespace detail
}  // namespace verbatim::objects
