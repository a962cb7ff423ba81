// Markings add to a class what its members do not say: those that stay behind, those that count
// others, a function that accepts received objects. They stand behind the class, in its namespace.
// The first two need its description (VERBATIM_DESCRIBE). Those of base classes hold as well.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include <verbatim/objects/describe/members.hpp>

// VERBATIM_TRANSIENT(Type, member...): members that are not sent. Each arrives as `Member{}` makes
// it, and its type need not be one that can be sent.
#define VERBATIM_TRANSIENT(Type, ...)                               \
    [[maybe_unused]] constexpr std::string_view verbatim_transient( \
        std::type_identity<Type>) noexcept {                        \
        return #__VA_ARGS__;                                        \
    }
// VERBATIM_COUNTED(Type, (pointer, count)...): members that point to an array, and those with the
// number of its elements. The pointers are raw, or unique_ptr<T[]>; the counts are integers.
#define VERBATIM_COUNTED(Type, ...)                               \
    [[maybe_unused]] constexpr std::string_view verbatim_counted( \
        std::type_identity<Type>) noexcept {                      \
        return #__VA_ARGS__;                                      \
    }
// VERBATIM_VALIDATE(Type, function): `bool function(const Type&)` is called with every received
// object of this type once the whole graph is there. If it returns false, nothing of the
// graph is handed out. It may follow references; it must not keep them.
#define VERBATIM_VALIDATE(Type, function)                                                   \
    [[maybe_unused]] constexpr auto verbatim_validator(std::type_identity<Type>) noexcept { \
        return static_cast<bool (*)(const Type&)>(function);                                \
    }

namespace verbatim::objects {
namespace detail {

// The names of a marking, which are separated by blanks, commas and parentheses.
constexpr std::string_view marked_name(std::string_view names, std::size_t number) {
    constexpr std::string_view between = " ,()";
    for (;; --number) {
        names.remove_prefix(std::min(names.find_first_not_of(between), names.size()));
        const auto end = std::min(names.find_first_of(between), names.size());
        if (number == 0 || names.empty()) return names.substr(0, end);
        names.remove_prefix(end);
    }
}
inline constexpr std::size_t kNotMarked = ~std::size_t{0};
constexpr std::size_t marked_number(std::string_view names, std::string_view name) {
    for (std::size_t number = 0; !marked_name(names, number).empty(); ++number)
        if (marked_name(names, number) == name) return number;
    return kNotMarked;
}

template <class T>
consteval std::string_view transient_names() {
    if constexpr (requires { verbatim_transient(std::type_identity<T>{}); })
        return verbatim_transient(std::type_identity<T>{});
    return {};
}
template <class T>
consteval std::string_view counted_names() {
    if constexpr (requires { verbatim_counted(std::type_identity<T>{}); })
        return verbatim_counted(std::type_identity<T>{});
    return {};
}
template <class T>
concept Validated = requires {
    verbatim_validator(std::type_identity<T>{});
};
template <class T>
bool is_valid(const std::byte* object) {
    return verbatim_validator(std::type_identity<T>{})(*reinterpret_cast<const T*>(object));
}

// Every name must be a member's, lest a misspelt one has no effect.
template <class T>
consteval bool are_members(std::string_view names) {
    using Members = DescribedMembers<T>;
    for (std::size_t number = 0; !marked_name(names, number).empty(); ++number) {
        const bool is_one = [&]<std::size_t... I>(std::index_sequence<I...>) {
            return ((Members::template name<I>() == marked_name(names, number)) || ...);
        }
        (std::make_index_sequence<Members::kCount>{});
        if (!is_one) return false;
    }
    return true;
}

// The member of a described class that counts the elements of its member I; kNotMarked if none.
template <class T, std::size_t I>
consteval std::size_t counting_member() {
    using Members = DescribedMembers<T>;
    constexpr auto names = counted_names<T>();
    constexpr std::size_t number = marked_number(names, Members::template name<I>());
    if (number == kNotMarked || number % 2 != 0) return kNotMarked;
    const auto counting = marked_name(names, number + 1);
    std::size_t found = kNotMarked;
    [&]<std::size_t... J>(std::index_sequence<J...>) {
        ((Members::template name<J>() == counting ? void(found = J) : void()), ...);
    }
    (std::make_index_sequence<Members::kCount>{});
    return found;
}
template <class T, std::size_t I>
consteval bool is_transient() {
    return marked_number(transient_names<T>(), DescribedMembers<T>::template name<I>()) !=
           kNotMarked;
}

}  // namespace detail
}  // namespace verbatim::objects
