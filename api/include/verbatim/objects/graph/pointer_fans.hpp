// A pointer fan is an object that refers to others by several raw pointers alone: a node of a tree
// or of a graph. Its pointers are looked up side by side, because one after the
// other each would wait for memory. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <verbatim/objects/graph/claims.hpp>
#include <verbatim/objects/graph/packing.hpp>
#include <verbatim/objects/graph/pointer_runs.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class E>
concept PointerFan = kMayLeadNowhere<E> && !std::is_polymorphic_v<E>;

// Of the sender's walk.
template <class Packer>
struct PointerFans {
    using Types = typename Packer::Types;

    // Do all pointers of an E lead to one whole object of a type that is known?
    template <class E>
    static constexpr bool takes() noexcept {
        if constexpr (Targets::kChecksReadable || Types::kIsOpen || !PointerFan<E>)
            return false;
        else
            return []<class... P>(List<P...>) {
                return (leads_to_whole<std::remove_pointer_t<P>, std::is_pointer_v<P>>() && ...);
            }(typename TraitOf<E>::Parts{});
    }
    // Of an object that was copied to `slot`. False: it is no fan, or this walk must look closer.
    template <class E>
    [[gnu::always_inline]] static bool pack(Packer& packer, const E& object, Slot slot) {
        if constexpr (takes<E>()) {
            if (packer.options_.acyclic || packer.tables_.targets.has_containers()) return false;
            pack_fan(packer, object, slot);
            return true;
        }
        return false;
    }
    // The object of the frame after the next, for a walk that takes no new ones in.
    template <class E>
    [[gnu::always_inline]] static void fetch_after_next(
        [[maybe_unused]] const Packer& packer) noexcept {
        if constexpr (PointerFan<E>) {
            const Column<PackFrame>& stack = packer.tables_.stack;
            if (stack.size() < 2) return;
            const std::byte* const source = (stack.end() - 2)->source;
            __builtin_prefetch(source);
            __builtin_prefetch(source + sizeof(E) - 1);
        }
    }

  private:
    template <class E>
    [[gnu::always_inline]] static void pack_fan(Packer& packer, const E& object, Slot slot) {
        Targets& targets = packer.tables_.targets;
        std::array<Claims::Word*, TraitOf<E>::kParts> words;
        words.fill(&elsewhere_);
        TraitOf<E>::each_pointer(
            object, [&]<std::size_t I>(auto* target) __attribute__((always_inline)) {
                words[I] = words_of(targets.claims, target);
                fetch(words[I], target);
            });
        TraitOf<E>::each_pointer_of_walk(
            object, [&]<std::size_t I>(auto* const& target) __attribute__((always_inline)) {
                const auto delta = reinterpret_cast<const std::byte*>(&target) -
                                   reinterpret_cast<const std::byte*>(&object);
                if (target != nullptr)
                    follow(packer, target, words[I], slot.at(static_cast<std::size_t>(delta)));
            });
    }
    // As Packer::follow_one(), but its words were looked up: as many as the granules of a T.
    template <class T>
    [[gnu::always_inline]] static void follow(Packer& packer, const T* target, Claims::Word* words,
                                              Slot word) {
        ++packer.references_;
        const Claims::Word known = *words;
        if (known == Claims::kFree) {
            if (are_free<kGranules<T>>(words)) {
                packer.take_in_claimed(target, words);
                return fetch_ahead(packer, *target);
            }
        } else if (std::uint64_t offset = 0;
                   packer.tables_.targets.template starts<kClaimTag<Types, T>>(
                       known, Packer::template number<T>(), offset)) {
            return packer.refer(word, packer.references_ - 1, offset);
        }
        packer.follow(target, 1, word);
    }
    // What the walk looks at when it comes to this object, which is soon for the last one taken in.
    // Near targets are fetched already, as their holder was: so those that follow behind them are,
    // in the order of allocation.
    template <class T>
    [[gnu::always_inline]] static void fetch_ahead(const Packer& packer, const T& object) noexcept {
        if constexpr (takes<T>())
            TraitOf<T>::each_pointer(
                object, [&]<std::size_t>(auto* target) __attribute__((always_inline)) {
                    const std::uint64_t address = address_of(target);
                    const bool is_far = PointerRuns<Packer>::is_far(&object, target);
                    const ArenaWords::View& words = packer.tables_.targets.claims.arena_words();
                    __builtin_prefetch(
                        reinterpret_cast<const void*>(is_far ? address : address + kAhead));
                    if (is_far && words.holds(address)) __builtin_prefetch(words.word(address), 1);
                });
    }
    template <class T, bool IsPointer>
    static constexpr bool leads_to_whole() noexcept {
        if constexpr (!IsPointer)
            return true;
        else
            return !Types::template is_inner<std::remove_cv_t<T>>() && !kIsDynamic<T> &&
                   sizeof(T) <= Claims::kPageBytes;
    }
    // The words of a target's granules; where they are not side by side, one that names no place.
    template <class T>
    [[gnu::always_inline]] static Claims::Word* words_of(Claims& claims, const T* target) {
        const std::uint64_t address = address_of(target);
        if (address == 0) return &elsewhere_;
        Claims::Word* const words = claims.words_or_make(address);
        const std::uint64_t granule = Claims::granule(address);
        const bool is_there = words != nullptr && address % kImageGranule == 0 &&
                              granule + kGranules<T> <= Claims::kPageGranules;
        return is_there ? words + granule : &elsewhere_;
    }
    // Both at once, since looking at the words first would cost the time of a second miss.
    template <class T>
    [[gnu::always_inline]] static void fetch(const Claims::Word* words, const T* target) noexcept {
        __builtin_prefetch(words, 1);
        __builtin_prefetch(target);
        if constexpr (sizeof(T) > kImageGranule)
            __builtin_prefetch(reinterpret_cast<const std::byte*>(target) + sizeof(T) - 1);
    }

    static constexpr std::uint64_t kAhead = 1024;

    // Never written: it is not free.
    static inline Claims::Word elsewhere_ = Claims::kShared;
};

}  // namespace verbatim::objects
