// The inner references of a sender's walk lead to what may lie inside other objects. Those whose
// target was not met yet wait until the rest of the graph is done, so that they find the whole;
// those types come first that can hold others. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/objects/graph/packing.hpp>

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
        const Targets::Meeting meeting = look<E>(packer, wanted);
        if (meeting.met == Met::seen)
            return packer.refer({waiting.offset}, reference, meeting.offset);
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
    // Pointers often lead into the array that the last one of their type led into.
    template <class E>
    Targets::Meeting look(Packer& packer, const Extent& wanted) noexcept {
        const Targets::Meeting meeting = packer.tables_.targets.look(wanted);
        if (meeting.met != Met::seen) return meeting;
        const Placement::Object& object = meeting.object;
        if (&packer.tables_.targets.placement.type_of(object) == &kTypeKey<E> && object.count > 1)
            likely_of<E>() = {wanted.address - (meeting.offset - object.offset),
                              object.count * sizeof(E), object.offset};
        return meeting;
    }
    template <class E>
    bool drain_one(Packer& packer) {
        auto& waiting = packer.tables_.waiting[index_of<E>()];
        std::size_t& drained = drained_[index_of<E>()];
        if (drained == waiting.size()) return false;
        const WaitingReference next = waiting[drained++];
        if (drained == waiting.size()) {
            waiting.clear();
            drained = 0;
        }
        drain<E>(packer, next);
        return true;
    }
    template <class E>
    void drain(Packer& packer, const WaitingReference& waiting) {
        const Extent wanted = extent<E>(waiting.target, waiting.count, packer.references_);
        const Likely& likely = likely_of<E>();
        const std::uint64_t delta = wanted.address - likely.address;
        Targets::Meeting meeting{Met::seen, likely.offset + delta, {}};
        if (delta >= likely.bytes || delta % sizeof(E) != 0 || waiting.count != 1)
            meeting = look<E>(packer, wanted);
        if (meeting.met == Met::seen) return write(packer, waiting.offset, meeting.offset);
        ++packer.references_;
        const auto* const first = reinterpret_cast<const E*>(waiting.target);
        const Targets& targets = packer.tables_.targets;
        if (waiting.is_text && packer.tables_.targets.meet(wanted).met == Met::fresh &&
            targets.container_of(wanted.address) == nullptr)
            return packer.take_in_container(wanted, wanted);
        packer.follow(first, waiting.count, {});
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
};

}  // namespace verbatim::objects
