// The composed walk is what the walks of both sides over a composed message share. The sender only
// looks (composed_check.hpp), the receiver makes objects of bytes (composed_verifier.hpp). Both
// accept the same messages: what is an error does not depend on the order of the walk. Threads: one
// at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/composed/composed_tables.hpp>
#include <verbatim/objects/describe/composed_marking.hpp>
#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/traits/trait.hpp>
#include <verbatim/objects/types/shared_ptr.hpp>

namespace verbatim::objects {

// `Derived` has push<E>(offset, count), for objects to be walked later, and refuse(const char*).
template <class Derived, class Root>
class ComposedWalk {
  public:
    using Types = Closure<Root>;
    static constexpr bool kByAddress = true;
    static constexpr std::uint64_t kOutside = ~std::uint64_t{0};

    // Fetches ahead what the address means.
    void fetch(const void* address) const noexcept {
        const std::uint64_t distance = reinterpret_cast<std::uint64_t>(address) - memory_.address;
        __builtin_prefetch(reinterpret_cast<const void*>(
            reinterpret_cast<std::uint64_t>(memory_.bytes) + distance));
    }
    // An element that a container owns there, and the map's cells of the first one.
    template <class E>
    [[gnu::always_inline]] void fetch_owned(const void* first, std::uint64_t index) const noexcept {
        const std::uint64_t start = reinterpret_cast<std::uint64_t>(first);
        map_.fetch(start - memory_.address);
        fetch(reinterpret_cast<const void*>(start + index * sizeof(E)));
    }

  protected:
    // Where several references may lead to the same object, and what is known of the others.
    static constexpr bool kHasShared = !boost::mp11::mp_empty<typename Types::Claimed>::value;
    using Map = std::conditional_t<kHasShared, ComposedMap, ComposedBits>;
    using Met = ComposedMet;

    explicit ComposedWalk(ComposedTables& tables) noexcept : map_(map_of(tables)) {}
    void begin(const ComposedMemory& memory) {
        static constexpr auto kTypes = []<class... T>(List<T...>) {
            return std::array<const TypeKey*, sizeof...(T)>{&kTypeKey<T>...};
        }(typename Types::Claimed{});
        memory_ = memory;
        map_.begin(kTypes, memory.used);
        near_.fill({});
    }

    // The offset of `count` objects, or kOutside: they are not all in the message, or not aligned.
    // `address`: what a reference says, of any value.
    template <class E>
    [[gnu::always_inline]] std::uint64_t locate(std::uint64_t address,
                                                std::uint64_t count) const noexcept {
        const std::uint64_t distance = address - memory_.address;
        if (distance >= memory_.used || distance % alignof(E) != 0) return kOutside;
        const std::uint64_t room = memory_.used - distance;
        if (count == 1 ? room < sizeof(E) : count > room / sizeof(E)) return kOutside;
        return distance;
    }

    // In the cells: of a type that several references may lead to, or kTaken.
    template <class E>
    static constexpr ComposedCell kNumber = Types::template claims<E>()
                                                ? Types::template number_of<E>()
                                                : ComposedCells::kTaken;
    // Objects that lie there and nowhere inside of others.
    template <class E>
    [[gnu::always_inline]] Met meet(std::uint64_t offset, std::uint64_t count) {
        if constexpr (kHasShared && ComposedCells::kIsShort<E>) {
            if (count == 1 && starts_granule<E>(offset)) {
                const std::uint64_t granule = offset / ComposedCells::kGranule;
                const Met met = map_.cells().template meet<E>(granule, kNumber<E>);
                objects_ += met == Met::fresh;
                return met;
            }
        }
        if constexpr (Types::template claims<E>())
            if (starts<E>(offset, count)) return Met::known;
        if (!map_.claim(offset, count * sizeof(E))) return Met::taken;
        note<E>(offset, count);
        return Met::fresh;
    }
    template <class E>
    [[gnu::always_inline]] bool starts(std::uint64_t offset, std::uint64_t count) const noexcept {
        if (ComposedMap::kIsMarked<E> && count == 1 && starts_granule<E>(offset))
            return map_.is_marked(offset, kNumber<E>);
        return map_.starts(offset, count, kNumber<E>);
    }
    template <class E>
    [[gnu::always_inline]] void note(std::uint64_t offset, std::uint64_t count) {
        ++objects_;
        if constexpr (Types::template claims<E>()) {
            if constexpr (ComposedMap::kIsMarked<E>)
                if (count == 1 && starts_granule<E>(offset))
                    return map_.template mark<E>(offset, kNumber<E>);
            map_.place(offset, count, kNumber<E>);
            if constexpr (Types::template is_inner<E>()) near<E>() = {offset, count};
        }
    }

    // Objects that are owned, or that a pointer leads to and that lie inside of no others.
    template <class E>
    [[gnu::always_inline]] void follow(std::uint64_t offset, std::uint64_t count) {
        const Met met = meet<E>(offset, count);
        if (met == Met::fresh) return derived().template push<E>(offset, count);
        if (met == Met::taken) derived().refuse("two objects lie in the same place");
    }
    // Objects that others may hold: these are met first.
    template <class E>
    [[gnu::always_inline]] void follow_inner(std::uint64_t offset, std::uint64_t count) {
        if (!is_held<E>(offset, count))
            waiting_[Types::template inner_index_of<E>()].push_back({offset, count});
    }
    // Takes all references of one type that wait. False if there is none. They are taken in an
    // order that does not depend on the walk.
    bool drain() {
        if constexpr (Types::kInnerTypes > 0) {
            using Drain = void (ComposedWalk::*)();
            static constexpr auto kDrain = []<class... T>(List<T...>) {
                return std::array<Drain, sizeof...(T)>{&ComposedWalk::template drain_type<T>...};
            }(typename Types::Inner{});
            for (const std::size_t index : Types::inner_order()) {
                if (waiting_[index].empty()) continue;
                (this->*kDrain[index])();
                return true;
            }
        }
        return false;
    }

    // The array of the type that was met or found last.
    template <class E>
    ComposedReference& near() noexcept {
        return near_[Types::template inner_index_of<E>()];
    }

    template <class E>
    [[gnu::always_inline]] bool is_near(std::uint64_t offset) noexcept {
        return are_in<E>(near<E>(), offset, 1);
    }

    ComposedMemory memory_;
    Map& map_;
    std::uint64_t objects_ = 0;

  private:
    Derived& derived() noexcept { return static_cast<Derived&>(*this); }
    static Map& map_of(ComposedTables& tables) noexcept {
        if constexpr (kHasShared)
            return tables.map;
        else
            return tables.bits;
    }
    template <class E>
    [[gnu::always_inline]] static bool starts_granule(std::uint64_t offset) noexcept {
        return alignof(E) % ComposedCells::kGranule == 0 || offset % ComposedCells::kGranule == 0;
    }
    template <class E>
    [[gnu::always_inline]] static bool are_in(const ComposedReference& array, std::uint64_t offset,
                                              std::uint64_t count) noexcept {
        const std::uint64_t bytes = offset - array.offset, index = bytes / sizeof(E);
        return bytes % sizeof(E) == 0 && index < array.count && count <= array.count - index;
    }
    // What was placed stays: it does not matter when this is asked.
    template <class E>
    [[gnu::always_inline]] bool is_held(std::uint64_t offset, std::uint64_t count) noexcept {
        return are_in<E>(near<E>(), offset, count) || starts<E>(offset, count);
    }
    template <class E>
    void drain_type() {
        auto& waiting = waiting_[Types::template inner_index_of<E>()];
        std::vector<ComposedReference> left;
        for (const ComposedReference& next : waiting.span())
            if (!is_held<E>(next.offset, next.count) && !holds<E>(next)) left.push_back(next);
        waiting.clear();
        std::sort(left.begin(), left.end());
        for (const ComposedReference& next : left)
            if (!holds<E>(next)) follow<E>(next.offset, next.count);
    }
    template <class E>
    bool holds(const ComposedReference& reference) noexcept {
        if (!map_.holds(reference.offset, reference.count, kTypeKey<E>, memory_.bytes))
            return false;
        const ComposedMap::Object& array = map_.last_array();
        if (array.number == kNumber<E>) near<E>() = {array.offset, array.count};
        return true;
    }

    std::array<Column<ComposedReference>, Types::kInnerTypes + 1> waiting_;
    std::array<ComposedReference, Types::kInnerTypes + 1> near_;
};

// A type that the walk cannot follow: its trait owns objects and does not say where they are, or
// their places are counted.
template <class T>
struct HidesAddresses {
    template <class Edge>
    struct IsOwned : std::true_type {};
    template <class E>
    struct IsOwned<PointerTo<E>> : std::false_type {};
    template <class E>
    struct IsOwned<ViewOf<E>> : std::false_type {};
    static constexpr bool kOwns =
        boost::mp11::mp_any_of<typename TraitOf<T>::Edges, IsOwned>::value;
    static constexpr bool value = kOwns && !requires { TraitOf<T>::kTellsAddresses; };
};
template <class Root>
inline constexpr bool kCanBeComposed =
    !boost::mp11::mp_any_of<typename Closure<Root>::Types, HidesAddresses>::value &&
    !boost::mp11::mp_any_of<typename Closure<Root>::Types, std::is_polymorphic>::value &&
    !detail::kHasCounts<Closure<Root>>;

}  // namespace verbatim::objects
