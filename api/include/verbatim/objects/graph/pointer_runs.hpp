// Runs of pointers side by side: their targets are fetched ahead, and taken in together where they
// are neighbours in memory. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <verbatim/objects/graph/packing.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class Packer>
struct PointerRuns {
    // Pointers that are fetched ahead: more at once would wait for each other.
    static constexpr std::uint64_t kAhead = 32;

    [[gnu::always_inline]] static bool is_far(const void* from, const void* target) noexcept {
        return address_of(target) - address_of(from) + kNear > 2 * kNear;
    }
    // Fetches the claim of a target, and itself.
    template <class P>
    [[gnu::always_inline]] static void fetch(Packer& packer, P target) noexcept {
        fetch_claim(packer, target);
        const std::uint64_t address = address_of(target);
        __builtin_prefetch(target);
        constexpr std::size_t bytes = sizeof(std::remove_pointer_t<P>);
        if constexpr (bytes > kImageGranule)
            __builtin_prefetch(reinterpret_cast<const void*>(address + bytes - 1));  // of null, too
    }
    [[gnu::always_inline]] static void fetch_claim(Packer& packer, const void* target) noexcept {
        const std::uint64_t address = address_of(target);
        if (const Claims::Word* const words = packer.tables_.targets.claims.words(address))
            __builtin_prefetch(words + Claims::granule(address), 1);
    }
    // And then, of one that was met before, its place.
    [[gnu::always_inline]] static void fetch_known(Packer& packer, const void* target) noexcept {
        const Targets& targets = packer.tables_.targets;
        const std::uint64_t address = address_of(target);
        if (const Claims::Word* const words = packer.tables_.targets.claims.words(address))
            targets.placement.prefetch(
                ClaimWords::offset_of(words[Claims::granule(address)], address));
    }
    // Of several pointers of an object all at once: else each would be waited for. What is near is
    // there already.
    template <class E>
    [[gnu::always_inline]] static void fetch_targets(Packer& packer, const E& object) noexcept {
        if constexpr (requires { TraitOf<E>::kPointers; })
            if constexpr (TraitOf<E>::kPointers > 1) {
                const auto each = [&](auto step) __attribute__((always_inline)) {
                    TraitOf<E>::each_pointer(
                        object, [&]<std::size_t>(auto* target) __attribute__((always_inline)) {
                            if (target != nullptr && is_far(&object, target)) step(target);
                        });
                };
                each([&](auto* target) { fetch(packer, target); });
                each([&]<class T>(const T* target) {
                    using Types = typename Packer::Types;
                    if constexpr (kClaimTag<Types, T> == 0 || Types::template is_inner<T>())
                        fetch_known(packer, target);
                });
            }
    }
    // Takes in the targets of all these pointers if they are new and neighbours in memory: for
    // little more than reading the pointers. Else does nothing.
    template <class P>
    static bool take_in(Packer& packer, const P* first, std::uint64_t count) {
        using E = std::remove_cv_t<std::remove_pointer_t<P>>;
        if constexpr (kStride<E> * kStepObjects > Claims::kPageBytes ||
                      alignof(E) > kImageGranule) {
            return false;
        } else {
            const std::uint64_t address = address_of(first[0]);
            if (count < kWorthwhile || address == 0 || address % kImageGranule != 0) return false;
            PackTables& tables = packer.tables_;
            if (tables.targets.has_containers() || tables.staging.room() < count * kStride<E>)
                return false;
            // Between others of the heap lies what is not the program's.
            if (sizeof(E) != kStride<E> && !tables.arena->contains(first[0])) return false;
            bool is_run = true;
            for (std::uint64_t i = 1; i < count; ++i)
                is_run &= address_of(first[i]) == address + i * kStride<E>;
            return is_run && take_in_neighbours(packer, first[0], count);
        }
    }

  private:
    static constexpr std::uint64_t kWorthwhile = 8, kLine = 64, kNear = 4096;
    template <class E>
    static constexpr std::uint64_t kStride = kGranules<E>* kImageGranule;

    // They take one page of claims, or two.
    template <class E>
    static bool take_in_neighbours(Packer& packer, const E* first, std::uint64_t count) {
        Claims& claims = packer.tables_.targets.claims;
        const std::uint64_t address = address_of(first);
        const std::uint64_t granules = count * kGranules<E>;
        const std::uint64_t here =
            std::min(granules, Claims::kPageGranules - Claims::granule(address));
        Claims::Word* const words = claims.words_or_make(address);
        Claims::Word* const rest =
            here == granules ? words : claims.words_or_make(address + here * kImageGranule);
        if (words == nullptr || rest == nullptr) return false;
        Claims::Word* const at = words + Claims::granule(address);
        if (!are_free(at, here) || !are_free(rest, granules - here)) return false;
        const std::uint64_t offset = copy(packer, first, count);
        const Claims::Word word = ClaimWords::plain(offset);
        fill(at, here, word);
        fill(rest, granules - here, word + static_cast<Claims::Word>(here));
        for (std::uint64_t i = 0; i < granules; i += kGranules<E>) {
            Claims::Word& start = i < here ? at[i] : rest[i - here];
            start = ClaimWords::tagged(start, kClaimTag<typename Packer::Types, E>);
        }
        return true;
    }
    template <class E>
    static std::uint64_t copy(Packer& packer, const E* first, std::uint64_t count) {
        const std::uint64_t bytes = (count - 1) * kStride<E> + sizeof(E);
        std::uint64_t offset = 0;
        std::byte* const to = packer.tables_.staging.place(bytes, kImageGranule, offset);
        fetch_next(reinterpret_cast<const std::byte*>(first) + bytes, to + bytes, bytes);
        std::memcpy(to, static_cast<const void*>(first), bytes);
        packer.tables_.targets.placement.template place_run<E>(offset, count,
                                                               Packer::template number<E>());
        packer.references_ += count;
        packer.objects_ += count;
        if constexpr (kHasReferences<E>) {
            const auto* const source = reinterpret_cast<const std::byte*>(first);
            for (std::uint64_t at = 0; at < count * kStride<E>; at += kStride<E>)
                packer.push(reinterpret_cast<const E*>(source + at), offset + at, 1);
        }
        return offset;
    }
    // Most likely the next run follows, in both memories.
    static void fetch_next(const std::byte* from, const std::byte* to, std::uint64_t bytes) {
        for (std::uint64_t at = 0; at < bytes; at += kLine) {
            __builtin_prefetch(from + at);
            __builtin_prefetch(to + at, 1);
        }
    }
    static bool are_free(const Claims::Word* words, std::uint64_t count) noexcept {
        Claims::Word any = 0;
        for (std::uint64_t i = 0; i < count; ++i) any |= words[i];
        return any == Claims::kFree;
    }
    static void fill(Claims::Word* words, std::uint64_t count, Claims::Word word) noexcept {
        for (std::uint64_t i = 0; i < count; ++i) words[i] = word + static_cast<Claims::Word>(i);
    }
};

}  // namespace verbatim::objects
