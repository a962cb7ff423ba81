// A class of the name of one in shapes_library.cpp, with another layout.
#include "shapes/objects_shapes.hpp"

namespace shapes {

struct Late : Shape {
    std::string text;
    std::int64_t part = 0;
};
VERBATIM_DESCRIBE_DERIVED(Late, (Shape), text, part)

}  // namespace shapes
