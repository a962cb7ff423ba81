// Composed starts are the places of the objects that a message has made one by one. They lie at
// equal distances, most often: so arithmetic tells, without a look at memory, where one starts.
// Threads: one at a time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <boost/mp11.hpp>

#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

// Objects of one type at equal distances.
struct ComposedRun {
    std::uint64_t offset = 0;
    std::uint64_t stride = 0;
    std::uint64_t count = 0;

    // False: the object does not go on with the run.
    [[gnu::always_inline]] bool add(std::uint64_t next) noexcept {
        if (count == 1) stride = next - offset;
        if (next != offset + count * stride) return false;
        ++count;
        return true;
    }
};

// Those of one run.
class ComposedStarts {
  public:
    ComposedStarts() = default;
    explicit ComposedStarts(const ComposedRun& run) noexcept
        : first_(run.offset), count_(run.count) {
        if (run.count < 2) return;
        shift_ = std::countr_zero(run.stride);
        // The inverse of an odd number modulo 2^64: each round doubles its right bits.
        const std::uint64_t odd = run.stride >> shift_;
        inverse_ = odd;
        for (int bits = 3; bits < 64; bits *= 2) inverse_ *= 2 - odd * inverse_;
    }
    // Multiples of the stride become their quotients, others larger numbers than any count.
    [[gnu::always_inline]] bool has(std::uint64_t offset) const noexcept {
        return std::rotr((offset - first_) * inverse_, shift_) < count_;
    }

  private:
    std::uint64_t first_ = 0;
    std::uint64_t count_ = 0;
    std::uint64_t inverse_ = 1;
    int shift_ = 0;
};

// Of all types that several references may lead to: the longest run of each. `Types`: the closure
// of the root.
template <class Types>
class ComposedAllStarts {
  public:
    // All that an E has to be looked at are raw pointers to whole objects.
    template <class E>
    static constexpr bool takes() noexcept {
        if constexpr (requires { TraitOf<E>::kHoldsPointersOnly; })
            return TraitOf<E>::kHoldsPointersOnly && []<class... P>(List<P...>) {
                return (leads_to_objects<P>() && ...);
            }(typename TraitOf<E>::Parts{});
        else
            return false;
    }

    template <class E>
    ComposedStarts& of() noexcept {
        return starts_[Types::template number_of<E>() - 1u];
    }
    template <class E>
    const ComposedStarts& of() const noexcept {
        return starts_[Types::template number_of<E>() - 1u];
    }
    // How many objects of a run, up to one with a pointer that does not lead to such a start, nor
    // is null. Offsets are those from `address`.
    template <class E>
    [[gnu::noinline]] std::uint64_t count_held(const std::byte* first, std::uint64_t stride,
                                               std::uint64_t count,
                                               std::uint64_t address) const noexcept {
        std::uint64_t i = 0;
        for (; i < count && hold(*reinterpret_cast<const E*>(first), address); ++i) first += stride;
        return i;
    }

  private:
    template <class E>
    [[gnu::always_inline]] bool hold(const E& object, std::uint64_t address) const noexcept {
        bool hold_all = true;
        TraitOf<E>::each_pointer(
            object, [&]<std::size_t>(const auto* target) __attribute__((always_inline)) {
                using F = std::remove_cv_t<std::remove_pointer_t<decltype(target)>>;
                const auto offset = reinterpret_cast<std::uint64_t>(target) - address;
                if (!of<F>().has(offset)) [[unlikely]]
                    hold_all = hold_all && target == nullptr;
            });
        return hold_all;
    }
    template <class P>
    static constexpr bool leads_to_objects() noexcept {
        if constexpr (std::is_pointer_v<P>) {
            using F = std::remove_cv_t<std::remove_pointer_t<P>>;
            return std::is_same_v<typename TraitOf<P>::Edges, List<PointerTo<F>>> &&
                   !Types::template is_inner<F>();
        } else {
            return kPlain<P>;
        }
    }

    std::array<ComposedStarts, boost::mp11::mp_size<typename Types::Claimed>::value + 1> starts_;
};

}  // namespace verbatim::objects
