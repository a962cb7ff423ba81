// The told classes are those that a peer has announced on a connection, by their numbers there.
// They are looked up in this process when a graph first uses them. Threads: the lane's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <verbatim/objects/classes/polymorphic_class.hpp>

namespace verbatim::objects {

// How a receiver makes the object that a pointer of a static type leads to.
struct ClassUse {
    std::byte* (*place)(Mending&) = nullptr;
    std::uint32_t delta = 0;   // of the pointer's target in the object
    std::uint16_t number = 0;  // of the class, as an open type
};

// What pointers of a static type led to, as the sender's PredictedTable has it.
struct PredictedUse {
    struct Used {
        std::uint64_t said = 0;
        ClassUse use;
    };
    static constexpr std::size_t kUsed = 8;

    ClassUse last;
    std::array<Used, kUsed> used{};

    Used& used_for(std::uint64_t said) noexcept { return used[(said ^ said >> 35) % kUsed]; }
};

class ToldClasses {
  public:
    static constexpr std::uint32_t kMost = 4096;
    static constexpr std::size_t kMostNameBytes = 1024, kMostFileBytes = 255;

    // Finds the layout that the peer has told, for explaining a difference; empty: not known.
    using FindLayout = std::string_view (*)(const void* owner, std::uint64_t fingerprint);
    void set_layouts(const void* owner, FindLayout find_layout) noexcept {
        owner_ = owner;
        find_layout_ = find_layout;
    }
    // `file`: the one that describes it, if that is known. False: the peer must not say that.
    bool add(std::uint32_t number, std::uint64_t fingerprint, std::string_view name,
             std::string_view file = {});

    // Throws Error: corrupt_message (the peer has not told of it), type_mismatch (this process does
    // not know it, or lays it out otherwise), unsupported (it has no prototype).
    const PolymorphicClass& find(std::uint64_t number);
    // Of a reference field that says the class. Throws as
    // find() does; corrupt_message: the class has no such static type there.
    const ClassUse& use(std::uint64_t said, std::uint16_t static_type, const TypeInfo& info,
                        ClassCounts& counts);

  private:
    struct Told {
        std::uint64_t fingerprint = 0;
        std::string name, file;
        const PolymorphicClass* known = nullptr;
    };
    const PolymorphicClass& look_up(const Told& told) const;

    std::vector<Told> told_;  // by number, from 1 on
    std::unordered_map<std::uint64_t, ClassUse> uses_;
    const void* owner_ = nullptr;
    FindLayout find_layout_ = nullptr;
};

}  // namespace verbatim::objects
