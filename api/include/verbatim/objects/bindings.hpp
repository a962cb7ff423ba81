// Structured bindings for aggregates of 1 to 24 members: the members' declared types, and whether each of them
// has an address, found without binding a reference to any (a bit-field refuses that with an error that helps
// nobody). Only the compile-time checks of members.hpp use this; values are reached through Boost.PFR.
#pragma once

#include <cstddef>
#include <type_traits>

namespace verbatim::objects::detail {

inline constexpr std::size_t kMaxBound = 24;

template <class... T>
struct TypeList {};

template <bool Addressable, class... T>
struct Bound {
    static constexpr bool kAddressable = Addressable;
    using Types = TypeList<T...>;
};

template <class... T>
void take_references(T&...) noexcept;

template <std::size_t N>
using Count = std::integral_constant<std::size_t, N>;

// A macro because it must see the bindings themselves. clang 14 cannot name a structured binding inside a
// requires-expression; there the layout check of members.hpp alone finds bit-fields.
#if defined(__clang__)
#define VERBATIM_ADDRESSABLE(...) true
#else
#define VERBATIM_ADDRESSABLE(...) (requires { take_references(__VA_ARGS__); })
#endif

// clang-format off
template <class T> constexpr auto bind(T& t, Count<1>) { auto& [m1] = t; return Bound<VERBATIM_ADDRESSABLE(m1), decltype(m1)>{}; }
template <class T> constexpr auto bind(T& t, Count<2>) { auto& [m1, m2] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2), decltype(m1), decltype(m2)>{}; }
template <class T> constexpr auto bind(T& t, Count<3>) { auto& [m1, m2, m3] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3), decltype(m1), decltype(m2), decltype(m3)>{}; }
template <class T> constexpr auto bind(T& t, Count<4>) { auto& [m1, m2, m3, m4] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4), decltype(m1), decltype(m2), decltype(m3), decltype(m4)>{}; }
template <class T> constexpr auto bind(T& t, Count<5>) { auto& [m1, m2, m3, m4, m5] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5)>{}; }
template <class T> constexpr auto bind(T& t, Count<6>) { auto& [m1, m2, m3, m4, m5, m6] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6)>{}; }
template <class T> constexpr auto bind(T& t, Count<7>) { auto& [m1, m2, m3, m4, m5, m6, m7] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7)>{}; }
template <class T> constexpr auto bind(T& t, Count<8>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8)>{}; }
template <class T> constexpr auto bind(T& t, Count<9>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9)>{}; }
template <class T> constexpr auto bind(T& t, Count<10>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10)>{}; }
template <class T> constexpr auto bind(T& t, Count<11>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11)>{}; }
template <class T> constexpr auto bind(T& t, Count<12>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12)>{}; }
template <class T> constexpr auto bind(T& t, Count<13>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13)>{}; }
template <class T> constexpr auto bind(T& t, Count<14>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14)>{}; }
template <class T> constexpr auto bind(T& t, Count<15>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15)>{}; }
template <class T> constexpr auto bind(T& t, Count<16>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16)>{}; }
template <class T> constexpr auto bind(T& t, Count<17>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16), decltype(m17)>{}; }
template <class T> constexpr auto bind(T& t, Count<18>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16), decltype(m17), decltype(m18)>{}; }
template <class T> constexpr auto bind(T& t, Count<19>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16), decltype(m17), decltype(m18), decltype(m19)>{}; }
template <class T> constexpr auto bind(T& t, Count<20>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16), decltype(m17), decltype(m18), decltype(m19), decltype(m20)>{}; }
template <class T> constexpr auto bind(T& t, Count<21>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16), decltype(m17), decltype(m18), decltype(m19), decltype(m20), decltype(m21)>{}; }
template <class T> constexpr auto bind(T& t, Count<22>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16), decltype(m17), decltype(m18), decltype(m19), decltype(m20), decltype(m21), decltype(m22)>{}; }
template <class T> constexpr auto bind(T& t, Count<23>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16), decltype(m17), decltype(m18), decltype(m19), decltype(m20), decltype(m21), decltype(m22), decltype(m23)>{}; }
template <class T> constexpr auto bind(T& t, Count<24>) { auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24] = t; return Bound<VERBATIM_ADDRESSABLE(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23, m24), decltype(m1), decltype(m2), decltype(m3), decltype(m4), decltype(m5), decltype(m6), decltype(m7), decltype(m8), decltype(m9), decltype(m10), decltype(m11), decltype(m12), decltype(m13), decltype(m14), decltype(m15), decltype(m16), decltype(m17), decltype(m18), decltype(m19), decltype(m20), decltype(m21), decltype(m22), decltype(m23), decltype(m24)>{}; }
// clang-format on

#undef VERBATIM_ADDRESSABLE

}  // namespace verbatim::objects::detail
