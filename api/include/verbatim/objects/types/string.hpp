// std::basic_string, std and std::pmr. Short strings lie in the object itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <span>
#include <string>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/traits/trait.hpp>
#include <verbatim/objects/types/array.hpp>

namespace verbatim::objects {

template <class C, class A>
struct Trait<std::basic_string<C, std::char_traits<C>, A>> {
    static_assert(kHasKnownAllocator<A, C>,
                  "verbatim: strings need std::allocator or std::pmr::polymorphic_allocator");
    using String = std::basic_string<C, std::char_traits<C>, A>;
    using Image = StringImage<C>;
    // Views may lead to the characters of a short string.
    using LocalCharacters = std::array<C, Image::kLocal + 1>;
    using Parts = List<LocalCharacters>;
    using Edges = List<OwnedArray<C>>;
    static constexpr bool kHoldsAllParts = true;
    static constexpr bool kPlain = false;
    static constexpr bool kPolymorphic = kIsPolymorphic<A, C>;
    static constexpr std::size_t kImageAt = kAllocatorBytes<kPolymorphic>;
    static constexpr bool kTellsAddresses = true;

    static std::string spell() {
        return spell_container("string", &TraitOf<C>::spell, kPolymorphic);
    }
    static TypeInfo info() {
        TypeInfo info = info_of_reference(&type_info<C>);
        add_part(info, {}, kImageAt + offsetof(Image, local), &type_info<LocalCharacters>);
        return info;
    }
    template <class S>
    static void pack(S& sender, const String& string, Slot slot) {
        const auto* image = reinterpret_cast<const std::byte*>(&string) + kImageAt;
        const bool is_local =
            reinterpret_cast<const std::byte*>(string.data()) == image + offsetof(Image, local);
        if (is_local || knows_array<kPolymorphic, C>(sender, string)) return;
        if (!ByAddress<S> && string.size() <= Image::kLocal)
            return amend_short(sender, string, slot);
        sender.template owned<C>(string.data(), string.size() + 1);
    }
    template <class R>
    static void mend(R& receiver, String& string) {
        auto* image = forbid_allocation<kPolymorphic>(&string);
        std::size_t size = 0;
        std::memcpy(&size, image + offsetof(Image, size), sizeof size);
        std::byte* data = image + offsetof(Image, local);
        if (size > Image::kLocal || is_apart(receiver, image)) {
            if (size == ~std::size_t{0}) receiver.corrupt("a string is longer than the graph");
            data = reinterpret_cast<std::byte*>(owned_at<C>(receiver, size + 1, data_of(image)));
            std::memcpy(image + offsetof(Image, capacity), &size, sizeof size);
        }
        C terminator;
        std::memcpy(&terminator, data + size * sizeof(C), sizeof(C));
        if (terminator != C{}) receiver.corrupt("a string lacks its terminator");
        std::memcpy(image + offsetof(Image, data), &data, sizeof data);
    }
    static constexpr bool kCanFetch = true;
    template <class R>
    [[gnu::always_inline]] static void fetch(const R& receiver, const String& string) noexcept {
        const auto* image = reinterpret_cast<const std::byte*>(&string) + kImageAt;
        std::size_t size = 0;
        std::memcpy(&size, image + offsetof(Image, size), sizeof size);
        receiver.template fetch_owned<C>(data_of(image), size);
    }

  private:
    static const std::byte* data_of(const std::byte* image) noexcept {
        const std::byte* data = nullptr;
        std::memcpy(&data, image + offsetof(Image, data), sizeof data);
        return data;
    }
    // A short one may be outside of its object in composed messages.
    template <class R>
    static bool is_apart(const R& receiver, const std::byte* image) noexcept {
        if constexpr (ByAddress<R>)
            return data_of(image) != receiver.composed_address(image + offsetof(Image, local));
        else
            return false;
    }
    // A string that was longer once: the receiver takes every short one for a local one.
    template <class S>
    static void amend_short(S& sender, const String& string, Slot slot) {
        std::array<C, Image::kLocal + 1> local{};
        std::memcpy(local.data(), string.data(), string.size() * sizeof(C));
        sender.amend(slot.at(kImageAt + offsetof(Image, local)), std::as_bytes(std::span(local)));
    }
};

}  // namespace verbatim::objects
