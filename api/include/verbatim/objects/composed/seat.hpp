// To seat an object is to give its containers the memory resource of a message. Containers that
// have another one are moved to it, with their elements.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <new>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <verbatim/objects/types/all.hpp>

namespace verbatim::objects {
namespace detail {

template <class T>
concept UsesMemoryResource = std::uses_allocator_v<T, std::pmr::polymorphic_allocator<>> &&
    requires(const T& object) {
    object.get_allocator().resource();
};
template <class T>
struct IsVariant : std::false_type {};
template <class... T>
struct IsVariant<std::variant<T...>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
concept ListsParts = requires {
    typename TraitOf<T>::ListedParts;
};

}  // namespace detail

template <class T>
void seat(T& object, std::pmr::memory_resource* resource);

namespace detail {

template <class T>
void seat_parts(T& object, std::pmr::memory_resource* resource) {
    using Listed = typename TraitOf<T>::ListedParts;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        (seat(Listed::template get<I>(object), resource), ...);
    }
    (std::make_index_sequence<Listed::kCount>{});
}

}  // namespace detail

template <class T>
void seat(T& object, std::pmr::memory_resource* resource) {
    if constexpr (std::is_const_v<T>) {
        return;
    } else if constexpr (detail::UsesMemoryResource<T>) {
        if (object.get_allocator().resource() == resource) return;
        T seated(std::move(object), typename T::allocator_type(resource));
        object.~T();
        ::new (static_cast<void*>(&object)) T(std::move(seated));
    } else if constexpr (detail::IsVariant<T>::value) {
        if (!object.valueless_by_exception())
            std::visit([&](auto& value) { seat(value, resource); }, object);
    } else if constexpr (detail::IsOptional<T>::value) {
        if (object) seat(*object, resource);
    } else if constexpr (detail::ListsParts<T>) {
        detail::seat_parts(object, resource);
    } else if constexpr (std::is_array_v<T>) {
        for (auto& element : object) seat(element, resource);
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
        std::apply([&](auto&... element) { (seat(element, resource), ...); }, object);
    }
}

}  // namespace verbatim::objects
