// A composed chain is the verifier's way along pointers from object to object of one type. The
// places of the message's cells and bytes, and the next object, stay in registers. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <boost/mp11.hpp>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/composed/composed_map.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

template <class T>
concept IsProduct = requires {
    typename TraitOf<T>::ListedParts;
};
// Nothing but raw pointers to objects, plain parts, and such products.
template <class T>
struct IsLinked {
    template <class P>
    using OfPart = IsLinked<P>;
    static constexpr bool value = [] {
        if constexpr (kPlain<T>)
            return true;
        else if constexpr (std::is_pointer_v<T>)
            return std::is_same_v<typename TraitOf<T>::Edges,
                                  List<PointerTo<std::remove_cv_t<std::remove_pointer_t<T>>>>>;
        else if constexpr (IsProduct<T>)
            return !std::is_polymorphic_v<T> &&
                   boost::mp11::mp_all_of<typename TraitOf<T>::Parts, OfPart>::value;
        else
            return false;
    }();
};

}  // namespace detail

// What such an object leads to is found by its pointers alone.
template <class E>
inline constexpr bool kIsLinked = detail::IsLinked<E>::value;
// And objects of the type lead to each other.
template <class E>
inline constexpr bool kIsChained = [] {
    if constexpr (detail::IsProduct<E> && kIsLinked<E>)
        return boost::mp11::mp_contains<typename TraitOf<E>::Parts, E*>::value ||
               boost::mp11::mp_contains<typename TraitOf<E>::Parts, const E*>::value;
    else
        return false;
}();

template <class Verifier>
class ComposedPointers {
  public:
    using Types = typename Verifier::Types;
    static constexpr bool kByAddress = true;
    // A pointer to the type, which is no part of others, leads to an object of its own. It starts
    // on a granule.
    template <class E>
    static constexpr bool kTakes = Types::template claims<E>() &&
                                   !Types::template is_inner<E>() && ComposedCells::kIsShort<E> &&
                                   alignof(E) <= ComposedCells::kGranule;

    ComposedPointers(ComposedCells cells, const ComposedMemory& memory) noexcept
        : cells_(cells), bytes_(memory.bytes), address_(memory.address) {}

    // The object that the field leads to if nothing has led to it yet; else null. Null fields lead
    // to nothing.
    template <class E>
    [[gnu::always_inline]] std::byte* follow(void* field) const {
        static_assert(kTakes<E>);
        std::uint64_t address = 0;
        std::memcpy(&address, field, sizeof address);
        if (address == 0) return nullptr;
        const std::uint64_t granule = ComposedCells::granule_at(address - address_);
        if (granule >= cells_.granules) [[unlikely]]
            Verifier::corrupt("a reference leads out of the message");
        std::byte* const target = bytes_ + granule * ComposedCells::kGranule;
        // Pages whose addresses were right stay as they came.
        if (reinterpret_cast<std::uint64_t>(bytes_) != address_)
            std::memcpy(field, &target, sizeof target);
        const ComposedMet met = cells_.template meet<E>(granule, Types::template number_of<E>());
        if (met == ComposedMet::fresh) return target;
        if (met == ComposedMet::taken) [[unlikely]]
            Verifier::corrupt("two objects lie in the same place");
        return nullptr;
    }

  private:
    const ComposedCells cells_;
    std::byte* const bytes_;
    const std::uint64_t address_;
};

// Takes the place of the verifier in the mend() of objects of type E.
template <class Verifier, class E>
class ComposedChain : public ComposedPointers<Verifier> {
  public:
    using Base = ComposedPointers<Verifier>;

    ComposedChain(Verifier& verifier, const ComposedPointers<Verifier>& pointers,
                  Column<std::byte*>& left) noexcept
        : Base(pointers), verifier_(verifier), left_(left) {}

    // Mends the object and all objects of the type that it leads to. How many of these.
    std::uint64_t run(std::byte* first) {
        std::uint64_t objects = 0;
        for (std::byte* at = first;;) {
            TraitOf<E>::mend(*this, *reinterpret_cast<E*>(at));
            at = next_;
            next_ = nullptr;
            if (at == nullptr) {
                if (left_.empty()) return objects;
                at = left_.back();
                left_.pop_back();
            }
            ++objects;
        }
    }

    // ---- called by the mend() of traits ----
    // The walk goes on with the object of the field that is mended last.
    template <class F>
    [[gnu::always_inline]] void pointer(void* field) {
        if constexpr (std::is_same_v<E, F> && Base::template kTakes<F>) {
            std::byte* const target = Base::template follow<F>(field);
            if (target == nullptr) return;
            if (next_ != nullptr) left_.push_back(next_);
            next_ = target;
        } else {
            verifier_.template pointer<F>(field);
        }
    }
    [[noreturn]] static void corrupt(const char* what) { Verifier::corrupt(what); }
    template <class F>
    void validate_later(const F* object, bool (*is_valid)(const std::byte*)) {
        verifier_.validate_later(object, is_valid);
    }

  private:
    Verifier& verifier_;
    Column<std::byte*>& left_;
    std::byte* next_ = nullptr;
};

}  // namespace verbatim::objects
