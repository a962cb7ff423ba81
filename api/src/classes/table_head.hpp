// A table head is what lies before the functions of a virtual table (Itanium C++ ABI, 2.5.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <typeinfo>

namespace verbatim::objects {

struct TableHead {
    std::ptrdiff_t offset_to_top;
    const std::type_info* id;  // of the whole object; null without type information
};

inline TableHead head_of(std::uint64_t table) noexcept {
    TableHead head;
    std::memcpy(&head, reinterpret_cast<const void*>(table - sizeof head), sizeof head);
    return head;
}

}  // namespace verbatim::objects
