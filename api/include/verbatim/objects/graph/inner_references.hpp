// The inner references of a sender's walk lead to what may lie inside other objects. Those whose
// target was not met yet wait until the rest of the graph is done, so that they find the whole;
// those types come first that can hold others. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/objects/graph/packing.hpp>
#include <verbatim/objects/graph/pointer_runs.hpp>
#include <verbatim/objects/types/text.hpp>

namespace verbatim::objects {

template <class Packer>
class InnerReferences {
  public:
    // To one object; `word` is the field. The reference was counted.
    template <class E>
    [[gnu::always_inline]] void follow(Packer& packer, const E* target, Slot word) {
        const Likely& likely = likely_of<E>();
        const std::uint64_t delta = address_of(target) - likely.address;
        if (delta < likely.bytes && delta % sizeof(E) == 0)
            return packer.refer(word, packer.references_ - 1, likely.offset + delta);
        follow(packer, target, WaitingReference{nullptr, word.offset, 1, false});
    }
    // To some, as `waiting` says but for the target.
    template <class E>
    [[gnu::noinline]] void follow(Packer& packer, const E* first, WaitingReference waiting) {
        const std::uint64_t reference = packer.references_ - 1;
        const Extent wanted = extent<E>(first, waiting.count, reference);
        const std::uint64_t place = place_of<E>(packer, wanted);
        if (place != kNoPlace) return packer.refer({waiting.offset}, reference, place);
        // Nothing but texts can hold it: it would not find a whole by waiting.
        if constexpr (Packer::Types::template is_of_texts<E>())
            if (waiting.is_text) return take_text<E>(packer, wanted, {waiting.offset});
        waiting.target = reinterpret_cast<const std::byte*>(first);
        packer.tables_.waiting[index_of<E>()].push_back(waiting);
    }
    // Follows one of those that wait. False if none does.
    bool drain_next(Packer& packer) {
        if constexpr (kTypes > 0) {
            using Drain = bool (InnerReferences::*)(Packer&);
            static constexpr auto kDrain = []<class... T>(List<T...>) {
                return std::array<Drain, sizeof...(T)>{&InnerReferences::template drain_one<T>...};
            }(typename Packer::Types::Inner{});
            for (const std::size_t index : Packer::Types::inner_order())
                if ((this->*kDrain[index])(packer)) return true;
        }
        return false;
    }

  private:
    using Met = Targets::Met;
    // An array in the sender's memory, and its place in the image.
    struct Likely {
        std::uint64_t address = 0, bytes = 0, offset = 0;
    };

    // Characters that were referred to before: a few literals often make up most texts of a graph.
    struct Recent {
        Extent extent;
        std::uint64_t offset = 0;
    };
    static constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};

    template <class E>
    static constexpr std::size_t index_of() {
        return Packer::Types::template inner_index_of<E>();
    }
    template <class E>
    Likely& likely_of() noexcept {
        return likely_[index_of<E>()];
    }
    template <class E>
    static Extent extent(const void* first, std::uint64_t count, std::uint64_t reference) {
        return {address_of(first), count, Packer::template number<E>(), reference};
    }
    // Pointers often lead into the array that the last one of their type led into, or to the same
    // part of another object.
    template <class E>
    Targets::Meeting look(Packer& packer, const Extent& wanted) noexcept {
        Placement::Part& part = parts_[index_of<E>()];
        const Targets::Meeting meeting = packer.tables_.targets.look(wanted, part);
        if (meeting.met != Met::seen) return meeting;
        const Placement::Object& object = meeting.object;
        if (&packer.tables_.targets.placement.type_of(object) == &kTypeKey<E> && object.count > 1)
            likely_of<E>() = {wanted.address - (meeting.offset - object.offset),
                              object.count * sizeof(E), object.offset};
        if (meeting.held == Held::always && object.count == 1)
            part = {meeting.offset - object.offset, object.number};
        return meeting;
    }
    // Its place in the image, or kNoPlace.
    template <class E>
    std::uint64_t place_of(Packer& packer, const Extent& wanted) noexcept {
        if constexpr (kIsCharacter<E>)
            if (const Recent& recent = recent_of(wanted); recent.extent.covers_same(wanted))
                return recent.offset;
        const Targets::Meeting meeting = look<E>(packer, wanted);
        if (meeting.met != Met::seen) return kNoPlace;
        if constexpr (kIsCharacter<E>) recent_of(wanted) = {wanted, meeting.offset};
        return meeting.offset;
    }
    Recent& recent_of(const Extent& wanted) noexcept {
        return recent_[wanted.address * 0x9e3779b97f4a7c15 >> 60];
    }
    template <class E>
    bool drain_one(Packer& packer) {
        auto& waiting = packer.tables_.waiting[index_of<E>()];
        std::size_t& drained = drained_[index_of<E>()];
        if (drained == waiting.size()) return false;
        fetch_ahead(packer, waiting, drained);
        const WaitingReference next = waiting[drained++];
        if (drained == waiting.size()) {
            waiting.clear();
            drained = 0;
        }
        drain<E>(packer, next);
        return true;
    }
    // They lead anywhere: the claim of each is fetched, and then what its place is. With these
    // distances an index of the 10^5 elements of a list left in 93 % of the time.
    static void fetch_ahead(Packer& packer, const Column<WaitingReference>& waiting,
                            std::size_t drained) noexcept {
        constexpr std::size_t kAhead = 16;
        if (drained + kAhead >= waiting.size()) return;
        PointerRuns<Packer>::fetch_claim(packer, waiting[drained + kAhead].target);
        PointerRuns<Packer>::fetch_known(packer, waiting[drained + kAhead / 2].target);
    }
    template <class E>
    void drain(Packer& packer, const WaitingReference& waiting) {
        const Extent wanted = extent<E>(waiting.target, waiting.count, packer.references_);
        const Likely& likely = likely_of<E>();
        const std::uint64_t delta = wanted.address - likely.address;
        std::uint64_t place = likely.offset + delta;
        if (delta >= likely.bytes || delta % sizeof(E) != 0 || waiting.count != 1)
            place = place_of<E>(packer, wanted);
        if (place != kNoPlace) return write(packer, waiting.offset, place);
        ++packer.references_;
        if (waiting.is_text) return take_text<E>(packer, wanted, {});
        packer.follow(reinterpret_cast<const E*>(waiting.target), waiting.count, {});
    }
    // Characters that were not met: the receiver is told how many.
    template <class E>
    void take_text(Packer& packer, const Extent& wanted, Slot word) {
        Targets& targets = packer.tables_.targets;
        if (targets.meet(wanted).met == Met::fresh) {
            const Extent* const container = targets.container_of(wanted.address);
            if (container == nullptr || container->covers_same(wanted))
                return packer.take_in_container(wanted, wanted);
        }
        packer.follow(reinterpret_cast<const E*>(wanted.address), wanted.count, word);
    }
    // The receiver never sees it wait if its field can still be written.
    static void write(Packer& packer, std::uint64_t field, std::uint64_t offset) {
        std::byte* const copy = packer.tables_.staging.staged(field);
        if (copy == nullptr) return packer.tell(packer.references_++, offset);
        const std::uint64_t value = kPlaceBit | offset;
        std::memcpy(copy, &value, sizeof value);
    }

    static constexpr std::size_t kTypes = Packer::Types::kInnerTypes;
    std::array<std::size_t, kTypes + 1> drained_{};
    std::array<Likely, kTypes + 1> likely_{};
    std::array<Placement::Part, kTypes + 1> parts_{};
    std::array<Recent, 16> recent_{};
};

}  // namespace verbatim::objects
