// std::stack, std::queue and std::priority_queue: the container inside, as it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <queue>
#include <stack>
#include <string>

#include <verbatim/objects/traits/nodes.hpp>
#include <verbatim/objects/traits/product.hpp>
#include <verbatim/objects/types/ordered.hpp>

namespace verbatim::objects {
namespace detail {

// Its member `c`, which is protected.
template <class Adaptor>
struct AdaptedContainer : NamelessParts<1> {
    template <std::size_t>
    static auto& get(auto& object) noexcept {
        struct Access : Adaptor {
            static constexpr auto member() noexcept { return &Access::c; }
        };
        return object.*Access::member();
    }
};
template <class Adaptor>
using AdaptorTrait = ProductTrait<Adaptor, AdaptedContainer<Adaptor>>;

}  // namespace detail

template <class T, class C>
struct Trait<std::stack<T, C>> : detail::AdaptorTrait<std::stack<T, C>> {
    static std::string spell() { return spell_template("stack", {&TraitOf<C>::spell}); }
};
template <class T, class C>
struct Trait<std::queue<T, C>> : detail::AdaptorTrait<std::queue<T, C>> {
    static std::string spell() { return spell_template("queue", {&TraitOf<C>::spell}); }
};

// The order of its elements is checked once the graph is whole.
template <class T, class C, class Compare>
struct Trait<std::priority_queue<T, C, Compare>>
    : detail::AdaptorTrait<std::priority_queue<T, C, Compare>> {
    using Queue = std::priority_queue<T, C, Compare>;
    static_assert(detail::kIsStateless<Compare>,
                  "verbatim: priority queues need a comparator without state: the receiver makes "
                  "its own");
    static_assert(detail::is_value_key<T>(),
                  "verbatim: elements of a priority queue must be numbers, enums, strings, or "
                  "tuples, optionals, variants, arrays and classes of these: others may compare "
                  "differently at the receiver");
    static constexpr bool kPlain = false;

    static std::string spell() {
        return spell_container("priority_queue", &TraitOf<C>::spell, false,
                               detail::spell_order<Compare, T>());
    }
    template <class R>
    static void mend(R& receiver, Queue& queue) {
        detail::AdaptorTrait<Queue>::mend(receiver, queue);
        receiver.validate_later(&queue, &is_heap);
    }

  private:
    static bool is_heap(const std::byte* queue) {
        const auto& elements = detail::AdaptedContainer<Queue>::template get<0>(
            *reinterpret_cast<const Queue*>(queue));
        return std::is_heap(elements.begin(), elements.end(), Compare{});
    }
};

}  // namespace verbatim::objects
