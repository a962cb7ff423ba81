// Names and base classes of a class as the language's own type information has them.
#pragma once

#include <string>
#include <typeinfo>

#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

// As programs write it.
std::string readable_name(const std::type_info& id);
// Throws Error(unsupported): a base class is virtual or not described.
void check_bases(const TypeInfo& type);

}  // namespace verbatim::objects
