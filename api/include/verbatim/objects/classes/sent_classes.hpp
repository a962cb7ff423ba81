// The sent classes are those that a sender has used on a connection, with their numbers there. The
// class of an object is found by the address of its virtual table. Threads: the lane's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <verbatim/objects/classes/polymorphic_class.hpp>

namespace verbatim::objects {

// A virtual table: one of its class's, for a subobject at a place.
struct KnownTable {
    const PolymorphicClass* of = nullptr;
    std::uint32_t number = 0;      // of the class, on the connection
    std::uint32_t delta = 0;       // of the subobject in the whole object
    std::vector<bool> is_checked;  // for pointers to such a static type
};

// The class of the last new object that a pointer of a static type led to. A walk has one for each.
struct PredictedTable {
    std::uint64_t table = 0;
    const KnownTable* known = nullptr;
};

// How a sender's walk came to a polymorphic object.
struct ClassReference {
    std::uint64_t field = 0;  // place of the pointer in the image; 0: it has none
    std::uint64_t table = 0;
    const KnownTable& known;
    PredictedTable& predicted;
};

class SentClasses {
  public:
    static std::uint64_t table_of(const void* object) noexcept {
        std::uint64_t table = 0;
        std::memcpy(&table, object, sizeof table);
        return table;
    }
    // Throws Error(unsupported): the object's class is not described, or not as one derived from
    // the static type.
    const KnownTable& find(std::uint64_t table, std::uint16_t static_type, const TypeInfo& info,
                           ClassCounts& counts) {
        if (const auto at = tables_.find(table); at != tables_.end()) {
            ++counts.warm;
            KnownTable& known = *at->second;
            if (static_type >= known.is_checked.size() || !known.is_checked[static_type])
                check(known, static_type, info);
            return known;
        }
        ++counts.cold;
        return learn(table, static_type, info);
    }
    // By number, from 1 on: at [number - 1].
    const std::vector<const PolymorphicClass*>& classes() const noexcept { return classes_; }
    bool are_told() const noexcept { return told_ == classes_.size(); }
    const PolymorphicClass& next_to_tell() const noexcept { return *classes_[told_]; }
    std::uint32_t next_number() const noexcept { return static_cast<std::uint32_t>(told_ + 1); }
    void set_told() noexcept { ++told_; }
    // Where a record finds the type, by what it says: kRecordClassShift. `root`: the root's types.
    std::uint64_t record_type(std::uint16_t number, std::span<const std::uint16_t> root) const;

  private:
    const KnownTable& learn(std::uint64_t table, std::uint16_t static_type, const TypeInfo& info);
    static void check(KnownTable& known, std::uint16_t static_type, const TypeInfo& info);
    std::uint32_t number_of(const PolymorphicClass& polymorphic);

    boost::unordered_flat_map<std::uint64_t, std::unique_ptr<KnownTable>> tables_;
    std::vector<const PolymorphicClass*> classes_;
    std::size_t told_ = 0;
};

}  // namespace verbatim::objects
