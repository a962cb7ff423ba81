// A sent field is a member of a class whose type must be one that can be sent. If it is not, the
// error of the compiler says why not, and among the places that required it is
// sent_field<Class, number, Type, &Class::name>: the class, the member, and its name if described.
#pragma once

#include <cstddef>
#include <type_traits>

#include <boost/mp11.hpp>

#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects::detail {

// Classes of the program list their fields.
template <class T>
concept HasFields = requires {
    typename TraitOf<T>::Fields;
};
template <class Edge>
using TargetOfReference = typename Edge::Target;

// The types that a T holds or refers to; of those that list their fields, none: they are checked
// by themselves.
template <class T, bool = HasFields<T>>
struct TypesBehind {
    using Type = boost::mp11::mp_append<
        typename TraitOf<T>::Parts,
        boost::mp11::mp_transform<TargetOfReference, typename TraitOf<T>::Edges>>;
};
template <class T>
struct TypesBehind<T, true> {
    using Type = List<>;
};

// `Field` is a sent_field; T lies behind its type.
template <class Field, class T>
struct behind_sent_field {
    // First, so that an error in it is told with this struct among the few that compilers name.
    using Edges = typename TraitOf<T>::Edges;
    template <class U>
    using Behind = behind_sent_field<Field, U>;
    static constexpr bool value =
        boost::mp11::mp_all_of<typename TypesBehind<T>::Type, Behind>::value;
};

template <class Class, std::size_t Number, class Type, auto... Member>
struct sent_field {
    using Edges = typename TraitOf<Type>::Edges;
    template <class U>
    using Behind = behind_sent_field<sent_field, U>;
    static constexpr bool value =
        boost::mp11::mp_all_of<typename TypesBehind<Type>::Type, Behind>::value;
};

template <class F>
using CanBeSent = std::bool_constant<F::value>;
template <class T>
consteval bool fields_can_be_sent() {
    if constexpr (HasFields<T>)
        return boost::mp11::mp_all_of<typename TraitOf<T>::Fields, CanBeSent>::value;
    else
        return true;
}

}  // namespace verbatim::objects::detail
