// std::vector, std and std::pmr. Of vector<bool>, which holds words: vector_bool.hpp.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/traits/container.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class E, class A>
requires(!std::is_same_v<E, bool>) struct Trait<std::vector<E, A>>
    : detail::ContainerTrait<A, E, OwnedArray> {
    using Vector = std::vector<E, A>;
    using Trait::ContainerTrait::kPolymorphic;

    static std::string spell() { return Trait::spell_container("vector"); }
    template <class S>
    static void pack(S& sender, const Vector& vector, Slot) {
        if (vector.empty() || knows_array<kPolymorphic, E>(sender, vector)) return;
        sender.template owned<E>(vector.data(), vector.size());
    }
    template <class R>
    static void mend(R& receiver, Vector& vector) {
        auto* image = forbid_allocation<kPolymorphic>(&vector);
        VectorImage ends;
        std::memcpy(&ends, image, sizeof ends);
        mend_ends(receiver, ends);
        std::memcpy(image, &ends, sizeof ends);
    }
    static constexpr bool kCanFetch = true;
    template <class R>
    [[gnu::always_inline]] static void fetch(const R& receiver, const Vector& vector) noexcept {
        VectorImage ends;
        std::memcpy(&ends,
                    reinterpret_cast<const std::byte*>(&vector) + kAllocatorBytes<kPolymorphic>,
                    sizeof ends);
        receiver.template fetch_owned<E>(ends.begin, 0);
    }

  private:
    template <class R>
    static void mend_ends(R& receiver, VectorImage& ends) {
        const auto begin = reinterpret_cast<std::uint64_t>(ends.begin),
                   end = reinterpret_cast<std::uint64_t>(ends.end);
        if (begin == end) {
            ends = {};
            return;
        }
        if (end < begin || (end - begin) % sizeof(E) != 0)
            receiver.corrupt("a vector's ends do not fit its elements");
        const std::uint64_t count = (end - begin) / sizeof(E);
        ends.begin = reinterpret_cast<std::byte*>(owned_at<E>(receiver, count, ends.begin));
        ends.end = ends.capacity_end = ends.begin + (end - begin);
    }
};

}  // namespace verbatim::objects
