// std::vector<bool>, std and std::pmr: its words are sent as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/libstdcxx_containers.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class A>
struct Trait<std::vector<bool, A>> {
    static_assert(kHasKnownAllocator<A, bool>,
                  "verbatim: vectors need std::allocator or std::pmr::polymorphic_allocator");
    using Container = std::vector<bool, A>;
    using Word = unsigned long;
    using Parts = List<>;
    using Edges = List<OwnedArray<Word>>;
    static constexpr bool kPlain = false;
    static constexpr bool kPolymorphic = kIsPolymorphic<A, bool>;
    static constexpr std::size_t kImageAt = kAllocatorBytes<kPolymorphic>;
    static constexpr bool kTellsAddresses = true;

    static std::string spell() { return kPolymorphic ? "vector<bool> pmr" : "vector<bool>"; }
    static TypeInfo info() { return info_of_reference(&type_info<Word>); }
    template <class S>
    static void pack(S& sender, const Container& vector, Slot) {
        const auto* image = reinterpret_cast<const BitsImage*>(
            reinterpret_cast<const std::byte*>(&vector) + kImageAt);
        sender.template owned<Word>(reinterpret_cast<const Word*>(image->start), words(*image));
    }
    template <class R>
    static void mend(R& receiver, Container& vector) {
        auto& image = *reinterpret_cast<BitsImage*>(forbid_allocation<kPolymorphic>(&vector));
        const std::uint64_t full = bytes(image);
        if (image.start_bit != 0 || image.finish_bit >= kWordBits || full % sizeof(Word) != 0)
            receiver.corrupt("a vector's ends do not fit its bits");
        const std::uint64_t count = words(image);
        const std::uint32_t bit = image.finish_bit;
        const std::byte* const start = image.start;
        image = {};
        if (count == 0) return;
        image.start = reinterpret_cast<std::byte*>(owned_at<Word>(receiver, count, start));
        image.finish = image.start + full;
        image.finish_bit = bit;
        image.storage_end = image.start + count * sizeof(Word);
    }

  private:
    static constexpr std::uint32_t kWordBits = 8 * sizeof(Word);

    static std::uint64_t bytes(const BitsImage& image) noexcept {
        return reinterpret_cast<std::uint64_t>(image.finish) -
               reinterpret_cast<std::uint64_t>(image.start);
    }
    static std::uint64_t words(const BitsImage& image) noexcept {
        return bytes(image) / sizeof(Word) + (image.finish_bit > 0 ? 1 : 0);
    }
};

}  // namespace verbatim::objects
