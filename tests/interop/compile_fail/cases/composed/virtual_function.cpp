// expect: a type of this graph cannot be composed: weak pointers, virtual functions
#include <verbatim/objects.hpp>

struct Shape {
    virtual ~Shape() = default;
    int corners = 0;
};
VERBATIM_DESCRIBE(Shape, corners)
VERBATIM_COMPOSED(Shape);

void compose_one(verbatim::Connection& connection) {
    auto message = verbatim::compose<Shape>(connection);
    message->corners = 3;
}
