// A container trait is the base of the traits of containers. Their allocator is a known one, their
// fields lie behind it, and what they own is elsewhere.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects::detail {

// Of elements V; `Edge<Target>` is what leads to them.
template <class A, class V, template <class> class Edge, class Target = V>
struct ContainerTrait {
    static_assert(kHasKnownAllocator<A, V>,
                  "verbatim: containers need std::allocator or std::pmr::polymorphic_allocator");
    using Parts = List<>;
    using Edges = List<Edge<Target>>;
    static constexpr bool kPlain = false;
    static constexpr bool kTellsAddresses = true;
    static constexpr bool kPolymorphic = kIsPolymorphic<A, V>;
    static constexpr std::size_t kImageAt = kAllocatorBytes<kPolymorphic>;

    static TypeInfo info() { return info_of_reference(&type_info<Target>); }
    static std::string spell_container(std::string_view name, std::string_view order = {}) {
        return objects::spell_container(name, &TraitOf<V>::spell, kPolymorphic, order);
    }
    // The container's fields, `at` bytes behind its start.
    template <class Image, std::size_t at = kImageAt>
    static const Image& image_of(const void* container) noexcept {
        return *reinterpret_cast<const Image*>(static_cast<const std::byte*>(container) + at);
    }
};

}  // namespace verbatim::objects::detail
