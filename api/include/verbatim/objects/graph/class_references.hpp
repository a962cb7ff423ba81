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
    [[gnu::always_inline]] static void follow(Packer& packer, const E* target, Slot word) {
        const std::uint64_t table = SentClasses::table_of(target);
        PredictedTable& predicted = packer.tables_.predicted.at(kStaticNumber<E>);
        const auto* const place = reinterpret_cast<const std::byte*>(target);
        if (predicted.last == table) {
            ++packer.class_counts_.hot;
            const KnownTable& known = *predicted.known;
            return known.follow(packer, place - known.delta, word.offset, known, nullptr);
        }
        const PredictedTable::Used used = predicted.used_for(table);
        if (used.table != table) return follow_other(packer, target, word);
        ++packer.class_counts_.warm;
        used.known->follow(packer, place - used.known->delta, word.offset, *used.known, &predicted);
    }
    // The root has no field. Nothing is said of it if it is what its type says.
    template <class E>
    static void follow_root(Packer& packer, const E* root) {
        const std::uint64_t table = SentClasses::table_of(root);
        const KnownTable& known =
            packer.tables_.sent_classes().find(table, type_info<E>(), packer.class_counts_);
        if (known.delta == 0 && *known.of->id == typeid(E)) return packer.follow(root, 1, {});
        follow_other(packer, root, {});
    }
    // The whole object is a T.
    template <class T>
    static void follow_as(Packing& packing, const std::byte* object, std::uint64_t field,
                          const KnownTable& known, PredictedTable* predicted) {
        auto& packer = static_cast<Packer&>(packing);
        const T* const whole = reinterpret_cast<const T*>(object);
        std::uint64_t offset = 0;
        auto how = Packer::Quick::fresh;
        if (packer.options_.acyclic)
            packer.take_in(whole, 1);
        else
            how = packer.follow_quickly(whole, offset);
        if (how == Packer::Quick::seen)
            return packer.refer({field}, packer.references_ - 1, offset + known.delta);
        if (how == Packer::Quick::unknown && !follow_slowly(packer, whole, field, known.delta))
            return;
        // It is new. The receiver expects the class of the last one.
        if (predicted != nullptr) tell_class(packer, object, field, known, *predicted);
    }

  private:
    template <class E>
    [[gnu::noinline]] static void follow_other(Packer& packer, const E* target, Slot word) {
        const std::uint64_t table = SentClasses::table_of(target);
        PredictedTable& predicted = packer.tables_.predicted.at(kStaticNumber<E>);
        const KnownTable& known =
            packer.tables_.sent_classes().find(table, type_info<E>(), packer.class_counts_);
        predicted.used_for(table) = {table, &known};
        known.follow(packer, reinterpret_cast<const std::byte*>(target) - known.delta, word.offset,
                     known, &predicted);
    }
    // True: the object is new.
    template <class T>
    [[gnu::noinline]] static bool follow_slowly(Packer& packer, const T* whole, std::uint64_t field,
                                                std::uint32_t delta) {
        Targets& targets = packer.tables_.targets;
        const Extent wanted{address_of(whole), 1, Packer::template number<T>(),
                            packer.references_ - 1};
        const Targets::Meeting meeting = targets.meet(wanted);
        if (meeting.met == Targets::Met::seen) {
            packer.refer({field}, wanted.reference, meeting.offset + delta);
            return false;
        }
        if (meeting.met == Targets::Met::covers) {
            if (targets.take_news()) packer.push(whole, Packer::kNowhere, 1);
            return false;
        }
        const Extent* const container =
            targets.has_containers() ? targets.container_of(wanted.address) : nullptr;
        const bool is_part = container != nullptr && !container->covers_same(wanted);
        if (is_part)
            packer.take_in_container(*container, wanted, delta);
        else
            packer.take_in(whole, 1);
        return !is_part;
    }
    static void tell_class(Packer& packer, const std::byte* object, std::uint64_t field,
                           const KnownTable& known, PredictedTable& predicted) {
        predicted.last = SentClasses::table_of(object + known.delta);
        predicted.known = &known;
        std::byte* const copy = field == 0 ? nullptr : packer.tables_.staging.staged(field);
        if (copy == nullptr) {
            packer.tables_.arrays.push_back(
                {packer.references_ - 1, known.delta, 1, kRecordSaysClass | known.number});
            if (packer.tables_.arrays.size() >= Packer::kMostRecords) packer.flush_at_ = 0;
            return;
        }
        const std::uint64_t said =
            kClassBit | std::uint64_t{known.delta} << kClassDeltaShift | known.number;
        std::memcpy(copy, &said, sizeof said);
    }
};

}  // namespace verbatim::objects
