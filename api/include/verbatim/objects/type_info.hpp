// A type info describes a type at run time, for the parts of a transfer without templates. It
// serves layouts and their fingerprints, and tells which objects lie inside which. One object per
// type and process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

namespace verbatim::objects {

struct TypeInfo;
// Late, because types may refer to themselves.
using TypeInfoFunction = const TypeInfo& (*)();

struct PartInfo {
    std::string name;  // empty where the language hides it
    std::size_t offset = 0;
    TypeInfoFunction type = nullptr;
    bool is_base = false;
};

// What the language says of a type.
struct TypeFacts {
    std::string (*spelled)() = nullptr;  // "vector<Point> pmr"
    const std::type_info* id = nullptr;  // null: it is no type of the language
    std::size_t bytes = 0;
    std::size_t alignment = 1;
    bool is_empty = false;        // a class without members: its byte means nothing
    bool is_polymorphic = false;  // it has virtual functions
    bool is_dynamic = false;      // and may have derived classes
};

struct TypeInfo : TypeFacts {
    bool is_class = false;        // of the program: its members are listed in layouts
    std::vector<PartInfo> parts;  // objects that it always holds
    // Elements side by side: an array.
    std::uint64_t count = 0;
    TypeInfoFunction element = nullptr;
    // Objects of which it holds one at most, at its start; alive() says which.
    std::vector<TypeInfoFunction> choices;
    std::size_t (*alive)(const std::byte* object) = nullptr;
    std::vector<TypeInfoFunction> targets;  // types that it refers to
};

// For TraitOf<T>::info(), which leaves the facts out. Of a type that refers to others of one type,
// and of one that always holds one object.
TypeInfo info_of_reference(TypeInfoFunction target);
TypeInfo info_of_part(TypeInfoFunction part, std::string_view name = {}, std::size_t offset = 0);
void add_part(TypeInfo& info, std::string_view name, std::size_t offset, TypeInfoFunction type,
              bool is_base = false);
// The info of a type, which `made` has from now on. Any thread. It stays until the process ends.
const TypeInfo& make_info(std::atomic<const TypeInfo*>& made, TypeInfo (*make)(),
                          const TypeFacts& facts);

// The layout of a type and of all types it reaches, as text. It has one line per fact. It is equal
// on both sides if and only if the bytes mean the same. Throws Error(unsupported) if a described
// type leaves a member out.
std::string layout_text(const TypeInfo& root);

struct Layout {
    std::string text;
    std::uint64_t fingerprint = 0;  // of the text and the library's ABI
};
// Computed once per type. Any thread.
const Layout& layout_of(const TypeInfo& root);

// Names the first difference of two layouts: "field 3 (offset 16) of Package: sender u64, receiver
// std::string".
std::string first_difference(std::string_view sender, std::string_view receiver,
                             std::string_view sender_name = "the sender",
                             std::string_view receiver_name = "the receiver");

// Objects of one type side by side in memory.
struct ObjectArray {
    const TypeInfo& type;
    std::uint64_t count = 0;
    const std::byte* bytes = nullptr;
};

// Are they the same type? Each library of a process may have an info of its own.
inline bool is_same(const TypeInfo& one, const TypeInfo& other) noexcept {
    if (&one == &other) return true;
    return one.bytes == other.bytes && one.id != nullptr && other.id != nullptr &&
           *one.id == *other.id;
}
// Does a `derived` have a base class `base`, or is it one, `delta` bytes into it?
bool derives(const TypeInfo& derived, const TypeInfo& base, std::uint64_t delta) noexcept;
// The field of a class that holds the address of its virtual table.
const TypeInfo& virtual_table_info();

// Does the array hold `inner_count` consecutive objects of type `inner`, starting `delta` bytes
// into it? The storage of an empty optional holds no object. Some do for what their bytes say now,
// the others because of their type: so do all arrays of that type and length.
enum class Held : std::uint8_t { no, now, always };
Held held(const ObjectArray& outer, std::uint64_t delta, const TypeInfo& inner,
          std::uint64_t inner_count) noexcept;
inline bool holds(const ObjectArray& outer, std::uint64_t delta, const TypeInfo& inner,
                  std::uint64_t inner_count) noexcept {
    return held(outer, delta, inner, inner_count) != Held::no;
}

template <class T>
const TypeInfo& type_info();

// The properties of a type that hot code needs, known at compile time. Its address is the type's
// identity, too.
struct TypeKey {
    TypeInfoFunction info;
    std::uint64_t bytes;
    std::uint64_t alignment;
};
template <class T>
inline constexpr TypeKey kTypeKey{&type_info<T>, sizeof(T), alignof(T)};

}  // namespace verbatim::objects
