// type_name() gives the name of a type as users write it, at compile time and alike for g++ and
// clang.
#pragma once

#include <string>
#include <string_view>

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
    std::string name(detail::raw_type_name<T>());
    constexpr std::string_view gcc = "{anonymous}", clang = "(anonymous namespace)";
    for (auto at = name.find(gcc); at != std::string::npos; at = name.find(gcc, at))
        name.replace(at, gcc.size(), clang);
    return name;
}

}  // namespace verbatim::objects
