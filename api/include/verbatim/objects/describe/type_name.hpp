// type_name() gives the name of a type as users write it, at compile time and alike for g++ and
// clang.
#pragma once

#include <string>
#include <string_view>

#include <verbatim/objects/spelling.hpp>

namespace verbatim::objects {
namespace detail {

template <class T>
constexpr std::string_view raw_type_name() noexcept {
    // "... [with T = Package; ...]" (g++) or "... [T = Package]" (clang).
    std::string_view text = __PRETTY_FUNCTION__;
    const auto start = text.find("T = ") + 4;
    const auto end = text.find_first_of(";]", start);
    // A ']' or ';' may belong to the type itself (arrays, lambdas): only named types come here.
    return text.substr(start, end - start);
}

// True if the type, or an argument of its, lies in an anonymous namespace.
template <class T>
constexpr bool has_internal_name() noexcept {
    constexpr std::string_view name = raw_type_name<T>();
    return name.find("{anonymous}") != name.npos || name.find("(anonymous namespace)") != name.npos;
}

}  // namespace detail

// "ns::Package"; anonymous namespaces read "(anonymous namespace)" with both compilers.
template <class T>
std::string type_name() {
    return spell_name(detail::raw_type_name<T>());
}

}  // namespace verbatim::objects
