// Class references are the pointers of a sender's walk that may lead to objects of derived classes.
// The virtual table says the class and the place of the target in the whole object, which the
// class's own functions walk. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/objects/classes/sent_classes.hpp>
#include <verbatim/objects/graph/open_closure.hpp>
#include <verbatim/objects/graph/packing.hpp>

namespace verbatim::objects {

template <class Packer>
struct ClassReferences {
    // `word` is the field. The reference was counted.
    template <class E>
    static void follow(Packer& packer, const E* target, Slot word) {
        const std::uint64_t table = SentClasses::table_of(target);
        PredictedTable& predicted = packer.tables_.prediction(kStaticNumber<E>);
        const KnownTable* known = predicted.known;
        if (predicted.table == table)
            ++packer.class_counts_.hot;
        else
            known = &find<E>(packer, table);
        known->of->follow(packer, reinterpret_cast<const std::byte*>(target) - known->delta,
                          {word.offset, table, *known, predicted});
    }
    // The root has no field. Nothing is said of it if it is what its type says.
    template <class E>
    static void follow_root(Packer& packer, const E* root) {
        const std::uint64_t table = SentClasses::table_of(root);
        const KnownTable& known = find<E>(packer, table);
        if (known.delta == 0 && *known.of->id == typeid(E)) return packer.follow(root, 1, {});
        known.of->follow(packer, reinterpret_cast<const std::byte*>(root) - known.delta,
                         {0, table, known, packer.tables_.prediction(kStaticNumber<E>)});
    }
    // The whole object is a T.
    template <class T>
    static void follow_as(Packing& packing, const std::byte* object,
                          const ClassReference& reference) {
        auto& packer = static_cast<Packer&>(packing);
        const T* const whole = reinterpret_cast<const T*>(object);
        std::uint64_t offset = 0;
        if (packer.options_.acyclic) {
            packer.take_in(whole, 1);
            return tell(packer, reference);
        }
        switch (packer.follow_quickly(whole, offset)) {
            case Packer::Quick::fresh:
                return tell(packer, reference);
            case Packer::Quick::seen:
                return packer.refer({reference.field}, packer.references_ - 1,
                                    offset + reference.known.delta);
            case Packer::Quick::unknown:
                return follow_slowly(packer, whole, reference);
        }
    }

  private:
    template <class E>
    [[gnu::noinline]] static const KnownTable& find(Packer& packer, std::uint64_t table) {
        return packer.tables_.sent_classes().find(table, kStaticNumber<E>, type_info<E>(),
                                                  packer.class_counts_);
    }
    template <class T>
    [[gnu::noinline]] static void follow_slowly(Packer& packer, const T* whole,
                                                const ClassReference& reference) {
        Targets& targets = packer.tables_.targets;
        const std::uint32_t delta = reference.known.delta;
        const Extent wanted{address_of(whole), 1, Packer::template number<T>(),
                            packer.references_ - 1};
        const Targets::Meeting meeting = targets.meet(wanted);
        if (meeting.met == Targets::Met::seen)
            return packer.refer({reference.field}, wanted.reference, meeting.offset + delta);
        if (meeting.met == Targets::Met::covers) {
            if (targets.take_news()) packer.push(whole, 0, 1);
            return;
        }
        const Extent* const container =
            targets.has_containers() ? targets.container_of(wanted.address) : nullptr;
        if (container != nullptr && !container->covers_same(wanted))
            return packer.take_in_container(*container, wanted, delta);
        packer.take_in(whole, 1);
        tell(packer, reference);
    }
    // The object is new. The receiver expects the class of the last one.
    [[gnu::always_inline]] static void tell(Packer& packer, const ClassReference& reference) {
        if (reference.predicted.table != reference.table) tell_class(packer, reference);
    }
    static void tell_class(Packer& packer, const ClassReference& reference) {
        const KnownTable& known = reference.known;
        reference.predicted = {reference.table, &known};
        std::byte* const field =
            reference.field == 0 ? nullptr : packer.tables_.staging.staged(reference.field);
        if (field == nullptr)
            return packer.tell(
                {packer.references_ - 1, known.delta, 1, kRecordSaysClass | known.number});
        const std::uint64_t said =
            kClassBit | std::uint64_t{known.delta} << kClassDeltaShift | known.number;
        std::memcpy(field, &said, sizeof said);
    }
};

}  // namespace verbatim::objects
