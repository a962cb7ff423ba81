// Spellings are the names of types in layouts. They are put together here, without templates: else
// each type would have the same code once more.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace verbatim::objects {

using Spell = std::string (*)();

// "pair<a, b>"
std::string spell_template(std::string_view name, std::initializer_list<Spell> arguments);
// "map<a> descending pmr"
std::string spell_container(std::string_view name, Spell element, bool is_polymorphic,
                            std::string_view order = {});
// "array<a x 3>"
std::string spell_array(std::string_view name, Spell element, std::size_t count);
// "i32", "u8", "f64"
std::string spell_number(char kind, std::size_t bytes);
// A name of the compiler's; anonymous namespaces read "(anonymous namespace)" with each compiler.
std::string spell_name(std::string_view name);

}  // namespace verbatim::objects
