// A polymorphic class is one with virtual functions that this process can send and receive: its
// description has registered it. Objects of it are walked by its own functions, which any walk over
// an open graph calls. Registered classes stay. Any thread may look one up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>

#include <verbatim/objects/classes/open_type.hpp>
#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

struct ClassCloning;
struct KnownTable;
struct PredictedTable;

// Follows a reference of a sender's walk to a whole object. `field`: the place of the pointer in
// the image; 0: it has none. `predicted`: null if the receiver expects this class.
using FollowClass = void (*)(Packing&, const std::byte* object, std::uint64_t field,
                             const KnownTable& known, PredictedTable* predicted);

struct PolymorphicClass {
    const std::type_info* id = nullptr;
    TypeInfoFunction info = nullptr;
    // Its number as an open type, and those of all types that its objects lead to, itself first.
    std::uint16_t (*number)() = nullptr;
    std::span<const std::uint16_t> (*types)() = nullptr;
    FollowClass follow = nullptr;
    // Makes its virtual tables known, and those of its parts. Throws Error(unsupported).
    void (*prepare)() = nullptr;
    // Null: some of its members cannot be cloned.
    const ClassCloning* cloning = nullptr;
};

// Its library stays loaded from now on. The first of a type counts. `file`: its description's.
void register_class(const PolymorphicClass& polymorphic, const char* file);
// The name of that file, without folders, for a receiver that lacks it. Empty: a peer would not
// take it.
std::string described_in(const PolymorphicClass& polymorphic);
// Null: there is none.
const PolymorphicClass* registered_class(const std::type_info& id);
const PolymorphicClass* registered_class(std::string_view name);

// The library that has the object or table stays loaded from now on.
void keep_library_of(const void* object);

// Throws Error(bad_pointer): the object is of a class derived from `info`'s, of which a view would
// send a part.
void check_exact_class(const void* object, const TypeInfo& info);

// What the reports say of references to polymorphic objects.
struct ClassCounts {
    std::uint64_t hot = 0;   // of the same class as the last new object of their pointer's type
    std::uint64_t warm = 0;  // of another class that was used on the connection
    std::uint64_t cold = 0;  // of one that had to be looked up
};

// A reference field of an open image may say the class of the new object that it leads to: this
// bit, the offset of the pointer's target in the object, and the class's number on the connection.
inline constexpr std::uint64_t kClassBit = std::uint64_t{1} << 62;
inline constexpr unsigned kClassDeltaShift = 32;
inline constexpr std::uint64_t kClassMostBytes = std::uint64_t{1} << 29;

// The type in an ArrayRecord of an open graph: the position of a type, from 1 on, among those of
// the root (0) or of a class, by its number.
inline constexpr unsigned kRecordClassShift = 32;
// The record says the class of a new object, as the field would have done: the type is the class's
// number, the place that of the pointer's target in the object.
inline constexpr std::uint64_t kRecordSaysClass = std::uint64_t{1} << 63;

}  // namespace verbatim::objects
