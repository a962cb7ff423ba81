// A class of a library that is loaded while the program runs.
#include <memory>
#include <string>

#include "shapes/objects_shapes.hpp"

namespace shapes {

struct Late : Shape {
    std::string tell() const override { return text + part->tell(); }
    std::string text = "of a library, with a ";
    std::unique_ptr<Shape> part = std::make_unique<Circle>(3);
    std::shared_ptr<std::string> note;
};
VERBATIM_DESCRIBE_DERIVED(Late, (Shape), text, part, note)

}  // namespace shapes

// The note is the caller's, too.
extern "C" shapes::Shape* make_shape(const std::shared_ptr<std::string>* note) {
    auto late = std::make_unique<shapes::Late>();
    if (note != nullptr) late->note = *note;
    return late.release();
}
