// The trait of boost::container::small_vector: an example of how to make a class of another library
// known to Verbatim (docs/objects.md, "Adding a trait"). Received elements always lie outside of
// the vector. So other pointers of the graph must not lead to elements inside of it.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include <boost/container/small_vector.hpp>

#include <verbatim/objects/types/all.hpp>

template <class E, std::size_t N>
struct verbatim::objects::Trait<boost::container::small_vector<E, N>> {
    using Vector = boost::container::small_vector<E, N>;
    struct Image {  // how Boost lays one out
        E* data;
        std::size_t size, capacity;
        alignas(E) std::byte inside[N * sizeof(E)];
    };
    static_assert(sizeof(Image) == sizeof(Vector));
    using Parts = List<>;
    using Edges = List<OwnedArray<E>>;
    static constexpr bool kPlain = false;
    static std::string spell() { return "small_vector<" + TraitOf<E>::spell() + ">"; }
    static TypeInfo info() { return Trait<std::vector<E>>::info(); }
    static void pack(auto& sender, const Vector& vector, Slot) {
        if (vector.data() ==
            static_cast<const void*>(reinterpret_cast<const Image&>(vector).inside))
            sender.template owned_inside<E>(vector.data(), vector.size());
        else
            sender.template owned<E>(vector.data(), vector.size());
    }
    static void mend(auto& receiver, Vector& vector) {
        Image image;  // bytes of the peer: no function of the vector may see them
        std::memcpy(&image, static_cast<const void*>(&vector), sizeof image);
        image.data = image.size == 0 ? nullptr : receiver.template owned<E>(image.size);
        image.capacity = image.size;
        std::memcpy(static_cast<void*>(&vector), &image, sizeof image);
    }
};
