// Composed arrays are the arrays that a scan of a composed message has met, and the references that
// must lead into one of them. Whether they do is known at the end: an array may come after what
// leads into it. Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include <boost/mp11.hpp>

#include <verbatim/objects/composed/composed_map.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

// `Types`: the closure of the root. Arrays are of its inner types.
template <class Types>
class ComposedArrays {
  public:
    template <class E>
    [[gnu::always_inline]] void add(const ComposedReference& array) {
        if constexpr (Types::template is_inner<E>()) {
            of<E>().last = array;
            of<E>().met.push_back(array);
        }
    }
    // Most references lead into the array of their type that was met last.
    template <class E>
    [[gnu::always_inline]] bool last_holds(const ComposedReference& reference) const noexcept {
        if constexpr (Types::template is_inner<E>())
            return holds<E>(of<E>().last, reference);
        else
            return false;
    }
    // The array of the type that was met last.
    template <class E>
    const ComposedReference& last() const noexcept {
        return of<E>().last;
    }
    // False: no array can have such objects.
    template <class E>
    bool must_hold(const ComposedReference& reference) {
        if constexpr (Types::template is_inner<E>()) of<E>().wanted.push_back(reference);
        return Types::template is_inner<E>();
    }
    // Do they all?
    bool hold_all() {
        return [&]<class... T>(List<T...>) {
            return (hold_all_of<T>() && ...);
        }(typename Types::Inner{});
    }

  private:
    struct Arrays {
        ComposedReference last;
        std::vector<ComposedReference> met, wanted;
    };
    template <class E>
    Arrays& of() noexcept {
        return arrays_[Types::template inner_index_of<E>()];
    }
    template <class E>
    const Arrays& of() const noexcept {
        return arrays_[Types::template inner_index_of<E>()];
    }
    template <class E>
    [[gnu::always_inline]] static bool holds(const ComposedReference& array,
                                             const ComposedReference& wanted) noexcept {
        const std::uint64_t bytes = wanted.offset - array.offset, index = bytes / sizeof(E);
        return bytes % sizeof(E) == 0 && index < array.count && wanted.count <= array.count - index;
    }
    template <class E>
    bool hold_all_of() {
        auto& [last, met, wanted] = of<E>();
        if (wanted.empty()) return true;
        if (met.empty()) return false;
        std::sort(met.begin(), met.end());
        for (const ComposedReference& next : wanted) {
            if (holds<E>(last, next)) continue;
            const auto after =
                std::upper_bound(met.begin(), met.end(), ComposedReference{next.offset, 0});
            if (after == met.begin()) return false;
            last = *std::prev(after);
            if (!holds<E>(last, next)) return false;
        }
        return true;
    }

    std::array<Arrays, Types::kInnerTypes + 1> arrays_;
};

}  // namespace verbatim::objects
