// Scalars: arithmetic types, enums, durations, time points, complex numbers. bool is checked: any
// byte but 0 and 1 would be undefined to read. So are enums whose enumerators are described.
#pragma once

#include <chrono>
#include <complex>
#include <concepts>
#include <cstring>
#include <string>
#include <type_traits>

#include <boost/describe/enumerators.hpp>
#include <boost/mp11/algorithm.hpp>

#include <verbatim/objects/describe/type_name.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class T>
requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) struct Trait<T> : PlainTrait {
    static std::string spell() {
        if constexpr (std::is_same_v<T, char> || std::is_same_v<T, wchar_t>)
            return type_name<T>();
        else
            return spell_number(std::is_floating_point_v<T> ? 'f'
                                : std::is_signed_v<T>       ? 'i'
                                                            : 'u',
                                sizeof(T));
    }
};

template <class T>
concept DescribedEnum = std::is_enum_v<T> && boost::describe::has_describe_enumerators<T>::value;

template <class T>
requires(std::is_enum_v<T> && !DescribedEnum<T>) struct Trait<T> : PlainTrait {
    static std::string spell() { return type_name<T>(); }
};

// A set of flags, which `a | b` makes, has bits of its enumerators. Another one has the value of
// one of them.
template <DescribedEnum T>
struct Trait<T> {
    using Parts = List<>;
    using Edges = List<>;
    static constexpr bool kPlain = false;
    static std::string spell() { return type_name<T>(); }
    static TypeInfo info() { return {}; }
    template <class R>
    static void mend(R& receiver, T& object) {
        std::underlying_type_t<T> value{};
        std::memcpy(&value, static_cast<const void*>(&object), sizeof value);
        if (is_one(value)) return;
        static const std::string what = "a value is no enumerator of " + type_name<T>();
        receiver.corrupt(what.c_str());
    }

  private:
    static constexpr bool kIsFlags = requires(T a) {
        { a | a } -> std::same_as<T>;
    };
    static constexpr bool is_one(std::underlying_type_t<T> value) noexcept {
        using Value = std::underlying_type_t<T>;
        bool is_known = false;
        auto rest = value;
        boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>([&](auto enumerator) {
            is_known |= value == static_cast<Value>(enumerator.value);
            rest = static_cast<Value>(rest & ~static_cast<Value>(enumerator.value));
        });
        return is_known || (kIsFlags && rest == 0);
    }
};

template <class R, class P>
requires(std::is_arithmetic_v<R>) struct Trait<std::chrono::duration<R, P>> : PlainTrait {
    static std::string spell() { return type_name<std::chrono::duration<R, P>>(); }
};
template <class C, class R, class P>
requires(
    std::is_arithmetic_v<R>) struct Trait<std::chrono::time_point<C, std::chrono::duration<R, P>>>
    : PlainTrait {
    static std::string spell() {
        return type_name<std::chrono::time_point<C, std::chrono::duration<R, P>>>();
    }
};
template <class R>
requires(std::is_arithmetic_v<R>) struct Trait<std::complex<R>> : PlainTrait {
    static std::string spell() { return type_name<std::complex<R>>(); }
};

template <>
struct Trait<bool> {
    using Parts = List<>;
    using Edges = List<>;
    static constexpr bool kPlain = false;
    static std::string spell() { return "bool"; }
    static TypeInfo info() { return {}; }
    template <class R>
    static void mend(R& receiver, bool& object) {
        unsigned char byte = 0;
        std::memcpy(&byte, static_cast<const void*>(&object), 1);
        if (byte > 1) receiver.corrupt("a bool is neither true nor false");
    }
};

}  // namespace verbatim::objects
