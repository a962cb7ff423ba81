// The sent classes are those that a sender has used on a connection, with their numbers there. The
// class of an object is found by the address of its virtual table. Threads: the lane's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <verbatim/objects/classes/polymorphic_class.hpp>

namespace verbatim::objects {

// A virtual table: one of its class's, for a subobject at a place.
struct KnownTable {
    const PolymorphicClass* of = nullptr;
    FollowClass follow = nullptr;  // its class's
    std::uint32_t number = 0;      // of the class, on the connection
    std::uint32_t delta = 0;       // of the subobject in the whole object
};

// What pointers of a static type led to: the table of the last new object, which the receiver takes
// for the next one's if it is told nothing, and some that were used.
struct PredictedTable {
    struct Used {
        std::uint64_t table = 0;
        const KnownTable* known = nullptr;
    };
    static constexpr std::size_t kUsed = 8;

    std::uint64_t last = 0;
    const KnownTable* known = nullptr;  // the last one
    std::array<Used, kUsed> used{};

    Used& used_for(std::uint64_t table) noexcept { return used[(table / 8 ^ table / 64) % kUsed]; }
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
    const KnownTable& find(std::uint64_t table, const TypeInfo& info, ClassCounts& counts) {
        if (const auto at = tables_.find(table); at != tables_.end()) {
            ++counts.warm;
            check(*at->second, info);
            return *at->second;
        }
        ++counts.cold;
        return learn(table, info);
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
    const KnownTable& learn(std::uint64_t table, const TypeInfo& info);
    static void check(const KnownTable& known, const TypeInfo& info);
    std::uint32_t number_of(const PolymorphicClass& polymorphic);

    std::unordered_map<std::uint64_t, std::unique_ptr<KnownTable>> tables_;
    std::vector<const PolymorphicClass*> classes_;
    std::size_t told_ = 0;
};

}  // namespace verbatim::objects
