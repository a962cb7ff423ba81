// What writer and reader of the general floor must agree on. Boost.PFR lists the fields; everything
// else is decided when this is compiled. Knows how libstdc++ lays out std::pmr::string and
// std::pmr::vector.
//
// Image: offsets in the place of pointers, 0 for null; objects start on granules, none at 0. The
// root comes first. An object that is met is placed behind all others and waits in a stack of its
// type; arrays that no pointer leads into are gone through at once.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../memory/warm_memory.hpp"

#include <boost/pfr/core.hpp>
#include <boost/pfr/tuple_size.hpp>

namespace bench_graph::image {

inline constexpr std::uint64_t kFirst = 16;
inline constexpr std::uint64_t round_up(std::uint64_t bytes) {
    return (bytes + 15) & ~std::uint64_t{15};
}

template <class T>
inline constexpr bool kText = std::is_same_v<T, std::pmr::string>;
template <class T>
struct ElementOf {
    using type = void;
};
template <class T>
struct ElementOf<std::pmr::vector<T>> {
    using type = T;
};
template <class T>
inline constexpr bool kVector = !std::is_void_v<typename ElementOf<T>::type>;
template <class T>
inline constexpr bool kObject = std::is_class_v<T> && !kText<T> && !kVector<T>;

// Whether there is anything to write or check in a T beyond copying it.
template <class T>
constexpr bool needs_visit() {
    if constexpr (kObject<T>) return []<std::size_t... I>(std::index_sequence<I...>) {
            return (needs_visit<boost::pfr::tuple_element_t<I, T>>() || ...);
        }
    (std::make_index_sequence<boost::pfr::tuple_size_v<T>>());
    else return std::is_pointer_v<T> || std::is_class_v<T> || std::is_same_v<T, bool>;
}

// The place of T in the tuple, from 1; 0: no pointer leads to a T.
template <class T, class Tuple>
inline constexpr std::uint16_t kNumber = 0;
template <class T, class First, class... Rest>
inline constexpr std::uint16_t kNumber<T, std::tuple<First, Rest...>> =
    std::is_same_v<T, First>               ? 1
    : kNumber<T, std::tuple<Rest...>> == 0 ? 0
                                           : kNumber<T, std::tuple<Rest...>> + 1;

// Containers first, so that a pointer into an array finds it placed already. Pointers from the last
// to the first: what the first one leads to is then taken from its stack first.
template <class T, class Each>
[[gnu::always_inline]] inline void for_each_field(T& object, Each each) {
    boost::pfr::for_each_field(object, [&]<class F>(F& field) {
        if constexpr (!std::is_pointer_v<F> && needs_visit<F>()) each(field);
    });
    constexpr std::size_t kFields = boost::pfr::tuple_size_v<T>;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto visit = [&]<class F>(F& field) {
            if constexpr (std::is_pointer_v<F>) each(field);
        };
        (visit(boost::pfr::get<kFields - 1 - I>(object)), ...);
    }
    (std::make_index_sequence<kFields>());
}

inline std::uint64_t load(const void* from) {
    std::uint64_t word;
    std::memcpy(&word, from, sizeof word);
    return word;
}
inline void store(void* to, std::uint64_t word) { std::memcpy(to, &word, sizeof word); }
template <class T>
std::byte* word_of(T& container, int word) {
    return reinterpret_cast<std::byte*>(&container) + word * 8;
}

// Objects that wait, by type: the same order on both sides. The memory is an owner's, and the tops
// are in a walk's registers.
struct Waiting {
    std::uint64_t place;
    std::uint64_t count;
};
template <class T>
struct Stack {
    Waiting* first;
    Waiting* top;
};
template <class Tuple>
class Stacks;
template <class... T>
class Stacks<std::tuple<T...>> {
  public:
    explicit Stacks([[maybe_unused]] Waiting* memory, [[maybe_unused]] std::size_t each)
        : stacks_{take<T>(memory, each)...} {}

    template <class U>
    [[gnu::always_inline]] void push(std::uint64_t place, std::uint64_t count) {
        *std::get<Stack<U>>(stacks_).top++ = {place, count};
    }
    // Calls visit.template operator()<T>(place, count) until nothing waits.
    template <class Visit>
    [[gnu::always_inline]] void drain([[maybe_unused]] Visit visit) {
        for (bool is_any = true; is_any;) {
            is_any = false;
            ((is_any = drain_one<T>(visit) || is_any), ...);
        }
    }

  private:
    template <class U>
    static Stack<U> take(Waiting*& memory, std::size_t each) {
        const Stack<U> taken{memory, memory};
        memory += each;
        return taken;
    }
    template <class U, class Visit>
    [[gnu::always_inline]] bool drain_one(Visit& visit) {
        auto& stack = std::get<Stack<U>>(stacks_);
        if (stack.top == stack.first) return false;
        while (stack.top != stack.first) {
            const Waiting next = *--stack.top;
            visit.template operator()<U>(next.place, next.count);
        }
        return true;
    }
    std::tuple<Stack<T>...> stacks_;
};

// Memory of stacks for an image of so many bytes: nothing that waits is smaller than a granule.
template <class Tuple>
class StackMemory {
  public:
    explicit StackMemory(std::size_t image_bytes)
        : each_(image_bytes / 16 + 1),
          block_((each_ * std::tuple_size_v<Tuple> + 1) * sizeof(Waiting)) {}
    Stacks<Tuple> stacks() const {
        return Stacks<Tuple>(reinterpret_cast<Waiting*>(block_.data()), each_);
    }

  private:
    std::size_t each_;
    WarmBlock block_;
};

}  // namespace bench_graph::image
