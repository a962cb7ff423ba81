// The classes of a saved graph, as the bytes of a file. Threads: any.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <verbatim/objects/operations/copying.hpp>

namespace verbatim::objects::file {

std::string text_of(std::span<const ClassFact> classes);
// False: the bytes are no such text.
bool read_classes(std::span<const std::byte> bytes, std::vector<ClassFact>& classes);

}  // namespace verbatim::objects::file
