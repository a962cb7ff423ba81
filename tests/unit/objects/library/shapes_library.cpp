// A class of a library that is loaded while the program runs.
#include "shapes/objects_shapes.hpp"

namespace shapes {

struct Late : Shape {
    std::string tell() const override { return text + part->tell(); }
    std::string text = "of a library, with a ";
    std::unique_ptr<Shape> part = std::make_unique<Circle>(3);
};
VERBATIM_DESCRIBE_DERIVED(Late, (Shape), text, part)

}  // namespace shapes

extern "C" shapes::Shape* make_shape() { return new shapes::Late; }
