// An open type is one that walks over open graphs may meet: graphs with pointers to polymorphic
// classes. Their types are not all known where the walk is compiled, so every type has a number of
// this process, and functions that both walks call by it. Any thread may look one up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <typeinfo>

#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

class Mending;
class Packing;

struct OpenType {
    const TypeKey* key = nullptr;
    // Copies `count` new objects into the image, and returns their place.
    std::uint64_t (*take_in)(Packing&, const std::byte* first, std::uint64_t count) = nullptr;
    // Follows a reference to them that was counted.
    void (*follow)(Packing&, const std::byte* first, std::uint64_t count) = nullptr;
    // The receiver's next `count` objects. Null: there are no such objects, the class is abstract.
    std::byte* (*place)(Mending&, std::uint64_t count) = nullptr;
    // One of them.
    std::byte* (*place_one)(Mending&) = nullptr;
};

// The number of a type, the same for all libraries of the process; the first to ask for it gives
// its functions, and stays loaded. 0: there are too many types.
std::uint16_t open_type_number(const std::type_info& id, const OpenType& type);
const OpenType& open_type(std::uint16_t number) noexcept;
// By number, from 1 on.
std::span<const TypeKey* const> open_type_keys() noexcept;

// The number of a polymorphic type that pointers lead to, from 0 on: the same for all libraries.
std::uint16_t static_type_number(const std::type_info& id);

}  // namespace verbatim::objects
