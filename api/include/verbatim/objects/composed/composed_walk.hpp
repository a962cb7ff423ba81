// The composed walk is what the walks of both sides over a composed message share. The sender only
// looks (composed_check.hpp), the receiver makes objects of bytes (composed_verifier.hpp). Both
// accept the same messages: what is an error does not depend on the order of the walk. Threads: one
// at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/composed/composed_map.hpp>
#include <verbatim/objects/describe/composed_marking.hpp>
#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/types/shared_ptr.hpp>
#include <verbatim/objects/types/trait.hpp>

namespace verbatim::objects {

// A reference to what may lie inside an object that the walk has not met yet.
struct ComposedReference {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;

    // Longer ones first, as they hold the others.
    friend bool operator<(const ComposedReference& a, const ComposedReference& b) noexcept {
        return a.offset != b.offset ? a.offset < b.offset : a.count > b.count;
    }
};

// `Derived` has push<E>(offset, count), for objects to be walked later, and refuse(const char*).
template <class Derived, class Root>
class ComposedWalk {
  public:
    using Types = Closure<Root>;
    static constexpr bool kByAddress = true;

  protected:
    void begin(const ComposedMemory& memory) {
        static constexpr auto kTypes = []<class... T>(List<T...>) {
            return std::array<const TypeKey*, sizeof...(T)>{&kTypeKey<T>...};
        }(typename Types::Claimed{});
        memory_ = memory;
        map_.begin(kTypes, memory.used);
    }

    // The offset of what an address of the message means, or kOutside.
    template <class E>
    [[gnu::always_inline]] std::uint64_t locate(std::uint64_t address,
                                                std::uint64_t count) const noexcept {
        return map_.template locate<E>(address - memory_.address, count);
    }

    enum class Met : std::uint8_t { fresh, known, taken };
    // Objects that lie there and nowhere inside of others.
    template <class E>
    [[gnu::always_inline]] Met meet(std::uint64_t offset, std::uint64_t count) {
        if constexpr (Types::template claims<E>())
            if (starts<E>(offset, count)) return Met::known;
        if (!map_.claim(offset, count * sizeof(E))) return Met::taken;
        note<E>(offset, count);
        return Met::fresh;
    }
    template <class E>
    [[gnu::always_inline]] bool starts(std::uint64_t offset, std::uint64_t count) const noexcept {
        constexpr std::uint16_t number = Types::template number_of<E>();
        if (ComposedMap::kIsMarked<E> && count == 1 && offset % ComposedMap::kGranule == 0)
            return map_.is_marked(offset, number);
        return map_.starts(offset, count, number);
    }
    template <class E>
    [[gnu::always_inline]] void note(std::uint64_t offset, std::uint64_t count) {
        ++objects_;
        if constexpr (Types::template claims<E>()) {
            constexpr std::uint16_t number = Types::template number_of<E>();
            if constexpr (ComposedMap::kIsMarked<E>)
                if (count == 1 && offset % ComposedMap::kGranule == 0)
                    return map_.template mark<E>(offset, number);
            map_.place(offset, count, number);
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

    ComposedMemory memory_;
    ComposedMap map_;
    std::uint64_t objects_ = 0;

  private:
    Derived& derived() noexcept { return static_cast<Derived&>(*this); }

    // What was placed stays: it does not matter when this is asked.
    template <class E>
    bool is_held(std::uint64_t offset, std::uint64_t count) const noexcept {
        if (starts<E>(offset, count)) return true;
        const ComposedMap::Object& array = map_.last_array();
        const std::uint64_t delta = offset - array.offset;
        if (array.number != 0 && &map_.type_of(array) == &kTypeKey<E> && delta % sizeof(E) == 0 &&
            delta / sizeof(E) < array.count)
            return count <= array.count - delta / sizeof(E);
        return false;
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
    bool holds(const ComposedReference& reference) const noexcept {
        return map_.holds(reference.offset, reference.count, kTypeKey<E>, memory_.bytes);
    }

    std::array<Column<ComposedReference>, Types::kInnerTypes + 1> waiting_;
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
    static constexpr bool value =
        boost::mp11::mp_any_of<typename TraitOf<T>::Edges, IsOwned>::value && !requires {
        TraitOf<T>::kTellsAddresses;
    };
};
template <class Root>
inline constexpr bool kCanBeComposed =
    !boost::mp11::mp_any_of<typename Closure<Root>::Types, HidesAddresses>::value &&
    !boost::mp11::mp_any_of<typename Closure<Root>::Types, std::is_polymorphic>::value &&
    !detail::kHasCounts<Closure<Root>>;

}  // namespace verbatim::objects
