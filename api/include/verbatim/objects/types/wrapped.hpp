// std::atomic of a scalar, and std::reference_wrapper: one value inside.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>

#include <verbatim/objects/traits/product.hpp>

namespace verbatim::objects {
namespace detail {

// The bytes of a Wrapper are those of its value.
template <class Wrapper, class Value>
struct WrappedValue : NamelessParts<1> {
    static_assert(sizeof(Wrapper) == sizeof(Value));
    template <std::size_t>
    static Value& get(Wrapper& object) noexcept {
        return reinterpret_cast<Value&>(object);
    }
    template <std::size_t>
    static const Value& get(const Wrapper& object) noexcept {
        return reinterpret_cast<const Value&>(object);
    }
};

}  // namespace detail

// It must not change meanwhile, as everything in a graph.
template <class T>
requires(std::is_scalar_v<T>) struct Trait<std::atomic<T>>
    : detail::ProductTrait<std::atomic<T>, detail::WrappedValue<std::atomic<T>, T>> {
    static std::string spell() { return spell_template("atomic", {&TraitOf<T>::spell}); }
};

template <class T>
requires(std::is_object_v<T>) struct Trait<std::reference_wrapper<T>> {
    using Parts = List<T*>;
    using Edges = List<>;
    static constexpr bool kHoldsAllParts = true;
    static constexpr bool kPlain = false;
    static_assert(sizeof(std::reference_wrapper<T>) == sizeof(T*));

    static std::string spell() { return spell_template("reference", {&TraitOf<T>::spell}); }
    static TypeInfo info() { return info_of_part(&type_info<T*>); }
    template <class S>
    static void pack(S& sender, const std::reference_wrapper<T>& reference, Slot slot) {
        TraitOf<T*>::pack(sender, reinterpret_cast<T* const&>(reference), slot);
    }
    template <class R>
    static void mend(R& receiver, std::reference_wrapper<T>& reference) {
        auto& pointer = reinterpret_cast<T*&>(reference);
        if (pointer == nullptr) receiver.corrupt("a reference leads nowhere");
        TraitOf<T*>::mend(receiver, pointer);
    }
};

}  // namespace verbatim::objects
