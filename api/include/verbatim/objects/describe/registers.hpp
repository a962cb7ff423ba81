// Descriptions of classes with virtual functions also register them: a receiver finds the class of
// an object by its name. A registration is a variable, initialised when its program or library is
// loaded.
#pragma once

#include <type_traits>

namespace verbatim::objects::detail {

// graph/open_walks.hpp
template <class T>
struct RegisteredClass;

// T need not be complete where this is named, but at the end of the source.
template <class T>
struct Registers {
    // `file`: the one that the description is in.
    explicit Registers([[maybe_unused]] const char* file = __builtin_FILE()) {
        if constexpr (std::is_polymorphic_v<T>) RegisteredClass<T>::add(file);
    }
};

}  // namespace verbatim::objects::detail

#define VERBATIM_JOIN_(a, b) a##b
#define VERBATIM_JOIN(a, b) VERBATIM_JOIN_(a, b)
// For use in the namespace of a class.
#define VERBATIM_REGISTERS(Type)                                                              \
    [[maybe_unused]] static const ::verbatim::objects::detail::Registers<Type> VERBATIM_JOIN( \
        verbatim_registers_, __COUNTER__){};
