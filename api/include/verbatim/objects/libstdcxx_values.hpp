// This header has libstdc++'s layout of variants, bitsets, views and counted pointers; it belongs
// to libstdcxx.hpp. It is probed with it before the first transfer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>

namespace verbatim::objects {

// std::variant<Types...>: one alternative at its start, then the index, all ones if valueless. The
// library never looks whether one is valueless if its assignments cannot make it so.
template <class... Types>
struct VariantImage {
    using Index = std::conditional_t<(sizeof...(Types) <= 255), unsigned char, unsigned short>;
    static constexpr Index kValueless = static_cast<Index>(-1);
    static constexpr bool kCanBeValueless =
        !std::__detail::__variant::__never_valueless<Types...>();
    static constexpr std::size_t kAlignment = std::max({alignof(Types)...});
    static constexpr std::size_t kStorage =
        (std::max({sizeof(Types)...}) + kAlignment - 1) / kAlignment * kAlignment;
    static constexpr std::size_t kIndexAt =
        (kStorage + alignof(Index) - 1) / alignof(Index) * alignof(Index);

    static Index index(const std::byte* variant) noexcept {
        Index index;
        std::memcpy(&index, variant + kIndexAt, sizeof index);
        return index;
    }
};

// std::bitset<N>, N > 0: words, the lowest bits first.
inline constexpr std::size_t kBitsetWordBits = 64;

// std::basic_string_view<C>.
struct StringViewImage {
    std::size_t size;
    const std::byte* data;
};
// std::span<T>; one of a fixed extent has the address only.
struct SpanImage {
    const std::byte* data;
    std::size_t size;
};

// The start of the block that std::shared_ptr and std::weak_ptr keep counts in: its virtual table,
// owners, weak references.
struct alignas(void*) ControlBlock {
    std::byte bytes[16];
};
// std::shared_ptr<T>, std::weak_ptr<T>, std::enable_shared_from_this<T>.
struct CountedPointerImage {
    const std::byte* target;
    const ControlBlock* block;
};
static_assert(sizeof(CountedPointerImage) == 16);

// Owners of the object that a living block counts. Other threads may change it meanwhile.
inline int owners_of(const ControlBlock* block) noexcept {
    const auto* count = reinterpret_cast<const int*>(block->bytes + sizeof(void*));
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}
// Of one of these pointers; it counts nothing.
inline CountedPointerImage image_of(const auto& pointer) noexcept {
    CountedPointerImage image;
    static_assert(sizeof pointer == sizeof image);
    std::memcpy(&image, static_cast<const void*>(&pointer), sizeof image);
    return image;
}
inline bool has_expired(const CountedPointerImage& image) noexcept {
    return image.block == nullptr || owners_of(image.block) == 0;
}
// Makes a block of a received graph, which ends with the graph's memory: its owners never become
// none, and it frees nothing.
void make_lasting_block(ControlBlock* block) noexcept;

// Of verify_library_layout().
bool value_layouts_are_known();

}  // namespace verbatim::objects
