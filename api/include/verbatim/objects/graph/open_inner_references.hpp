// The inner references of a sender's walk over an open graph, as InnerReferences are of others.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <cstring>

#include <verbatim/objects/classes/open_type.hpp>
#include <verbatim/objects/graph/packing.hpp>

namespace verbatim::objects {

template <class Packer>
class OpenInnerReferences {
  public:
    // To one object; `word` is the field. The reference was counted.
    template <class E>
    void follow(Packer& packer, const E* target, Slot word) {
        follow(packer, target, WaitingReference{nullptr, word.offset, 1, false, 0});
    }
    // To some, as `waiting` says but for target and type.
    template <class E>
    void follow(Packer& packer, const E* first, WaitingReference waiting) {
        waiting.target = reinterpret_cast<const std::byte*>(first);
        waiting.number = Packer::template number<E>();
        wait(packer, waiting, sizeof(E));
    }
    // Follows one of those that wait. False if none does.
    bool drain_next(Packer& packer) {
        WaitingReference next;
        if (!packer.tables_.open_waiting.pop(next)) return false;
        drain(packer, next);
        return true;
    }

  private:
    using Met = Targets::Met;

    static Extent extent(const WaitingReference& waiting, std::uint64_t reference) {
        return {address_of(waiting.target), waiting.count, waiting.number, reference};
    }
    static void wait(Packer& packer, const WaitingReference& waiting, std::uint64_t bytes) {
        const std::uint64_t reference = packer.references_ - 1;
        const Targets::Meeting meeting = packer.tables_.targets.look(extent(waiting, reference));
        if (meeting.met == Met::seen)
            return packer.refer({waiting.offset}, reference, meeting.offset);
        packer.tables_.open_waiting.push(bytes, waiting);
    }
    static void drain(Packer& packer, const WaitingReference& waiting) {
        Targets& targets = packer.tables_.targets;
        const Extent wanted = extent(waiting, packer.references_);
        const Targets::Meeting meeting = targets.look(wanted);
        if (meeting.met == Met::seen) return write(packer, waiting.offset, meeting.offset);
        ++packer.references_;
        if (waiting.is_text && targets.meet(wanted).met == Met::fresh &&
            targets.container_of(wanted.address) == nullptr)
            return packer.take_in_container(wanted, wanted);
        open_type(waiting.number).follow(packer, waiting.target, waiting.count);
    }
    // The receiver never sees it wait if its field can still be written.
    static void write(Packer& packer, std::uint64_t field, std::uint64_t offset) {
        std::byte* const copy = packer.tables_.staging.staged(field);
        if (copy == nullptr) return packer.tell(packer.references_++, offset);
        const std::uint64_t value = kPlaceBit | offset;
        std::memcpy(copy, &value, sizeof value);
    }
};

}  // namespace verbatim::objects
