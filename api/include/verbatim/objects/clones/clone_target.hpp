// A clone target is an object that owners of a graph lead to: its first byte, and its type. An
// object and its first member differ by the type.
#pragma once

#include <cstddef>
#include <functional>

#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

struct CloneTarget {
    const void* object = nullptr;
    const TypeInfo* type = nullptr;  // each library of a process may have its own

    friend bool operator==(const CloneTarget& one, const CloneTarget& other) noexcept {
        return one.object == other.object && is_same(*one.type, *other.type);
    }
    struct Hash {
        std::size_t operator()(const CloneTarget& target) const noexcept {
            return std::hash<const void*>()(target.object);
        }
    };
};

}  // namespace verbatim::objects
