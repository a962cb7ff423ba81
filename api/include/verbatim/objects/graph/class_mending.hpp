// Class mending is the part of a receiver's walk that only open graphs need. It makes objects whose
// class the peer has named, keeps references that wait, and reads records that name types of any
// class. Every class must be known here and be derived from the pointer's type. Threads: one at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/objects/classes/told_classes.hpp>
#include <verbatim/objects/graph/mending.hpp>
#include <verbatim/objects/graph/open_closure.hpp>

namespace verbatim::objects {

template <class Mender>
struct ClassMending {
    // A pointer to E, of which `raw` was sent.
    template <class E>
    [[gnu::always_inline]] static void follow(Mender& mender, std::byte* field, std::uint64_t raw) {
        const std::uint64_t reference = mender.references_++;
        if ((raw & kPlaceBit) != 0) return mender.store(field, target<E>(mender, raw & ~kPlaceBit));
        MendTables& tables = mender.tables_;
        if (reference == tables.records.next()) return mender.store(field, by_record<E>(mender));
        PredictedUse& predicted = tables.predicted.at(kStaticNumber<E>);
        if ((raw & kClassBit) == 0) {
            if (predicted.last.place == nullptr)
                Mending::corrupt("an object of a class without a name");
            ++mender.class_counts_.hot;
        } else if (const PredictedUse::Used& used = predicted.used_for(raw); used.said == raw) {
            predicted.last = used.use;
            ++mender.class_counts_.warm;
        } else {
            return mender.store(field, place_other<E>(mender, raw));
        }
        // What it places may change the table.
        const std::uint32_t delta = predicted.last.delta;
        mender.store(field, predicted.last.place(mender) + delta);
    }
    // An object that was met before, or is part of another.
    template <class E>
    static std::byte* target(Mender& mender, std::uint64_t offset) {
        MendTables& tables = mender.tables_;
        const ClassUse& predicted = tables.predicted.at(kStaticNumber<E>).last;
        if (offset < tables.image.cursor() &&
            tables.placement.starts(offset - predicted.delta, predicted.number) &&
            predicted.place != nullptr)
            return tables.image.memory_at(offset);
        (void)mender.refer(offset, 1, kTypeKey<E>);
        return tables.image.memory_at(offset);
    }
    // A record says where it leads, or of which class it is.
    template <class E>
    [[gnu::noinline]] static std::byte* by_record(Mender& mender) {
        MendTables& tables = mender.tables_;
        if (const PlaceRecord* const place = tables.records.take_place())
            return target<E>(mender, place->offset);
        const ArrayRecord record = *tables.records.take_array();
        if ((record.type & kRecordSaysClass) == 0) {
            place_array(mender, record);
            return target<E>(mender, record.offset);
        }
        const std::uint64_t number = record.type & ~kRecordSaysClass;
        if (record.count != 1 || number > ToldClasses::kMost || record.offset >= kClassMostBytes)
            Mending::corrupt("an object of a class without a name");
        return place_other<E>(mender, kClassBit | record.offset << kClassDeltaShift | number);
    }
    // Objects of a type that the root or a class leads to; a reference leads to one of them.
    static void place_array(Mender& mender, const ArrayRecord& record) {
        const std::uint64_t number = record.type >> kRecordClassShift;
        const std::uint64_t position = record.type & 0xffffffff;
        const auto types = number == 0 ? mender.root_type_.types()
                                       : mender.tables_.told_classes().find(number).types();
        if (position == 0 || position > types.size() || record.count == 0)
            Mending::corrupt("an array of no type of the graph");
        (void)place_any(mender, types[position - 1], record.count);
    }
    static std::byte* place_any(Mender& mender, std::uint16_t number, std::uint64_t count) {
        const OpenType& type = open_type(number);
        if (type.place == nullptr) Mending::corrupt("an object of an abstract class");
        return type.place(mender, count);
    }
    // A reference to objects that are placed in the end.
    static void wait(Mender& mender, std::byte* field, std::uint64_t count, std::uint16_t number) {
        mender.tables_.open_waiting.push(open_type(number).key->bytes, {field, count, number});
    }
    // Places one of those that wait. False: none does.
    static bool drain_next(Mender& mender) {
        OpenWaitingField next;
        if (!mender.tables_.open_waiting.pop(next)) return false;
        const std::uint64_t reference = mender.references_++;
        mender.store(next.field, reference == mender.tables_.records.next()
                                     ? drained_by_record(mender, next)
                                     : place_any(mender, next.number, next.count));
        return true;
    }

  private:
    // A new object of a class that the peer says, not one of those used last.
    template <class E>
    [[gnu::noinline]] static std::byte* place_other(Mender& mender, std::uint64_t said) {
        MendTables& tables = mender.tables_;
        const ClassUse use =
            tables.told_classes().use(said, kStaticNumber<E>, type_info<E>(), mender.class_counts_);
        PredictedUse& predicted = tables.predicted.at(kStaticNumber<E>);
        predicted.used_for(said) = {said, use};
        predicted.last = use;
        return use.place(mender) + use.delta;
    }
    static std::byte* drained_by_record(Mender& mender, const OpenWaitingField& waiting) {
        MendTables& tables = mender.tables_;
        std::uint64_t offset = 0;
        if (const PlaceRecord* const record = tables.records.take_place()) {
            offset = record->offset;
        } else {
            const ArrayRecord array = *tables.records.take_array();
            place_array(mender, array);
            offset = array.offset;
        }
        const TypeKey& type = *open_type(waiting.number).key;
        if (waiting.count == Mender::kUntold) return mender.refer_to_text(offset, type);
        (void)mender.refer(offset, waiting.count, type);
        return tables.image.memory_at(offset);
    }
};

}  // namespace verbatim::objects
