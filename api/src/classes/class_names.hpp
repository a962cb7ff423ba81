// Names and base classes of a class as the language's own type information has them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <typeinfo>

#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

// As programs write it.
std::string readable_name(const std::type_info& id);
// A peer may tell of it: errors show it, on terminals and in logs.
bool may_be_told(std::string_view text, std::size_t most_bytes) noexcept;
// Throws Error(unsupported): a base class is virtual or not described.
void check_bases(const TypeInfo& type);

}  // namespace verbatim::objects
