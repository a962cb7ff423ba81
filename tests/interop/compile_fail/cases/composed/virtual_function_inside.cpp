// expect: a type of this graph cannot be composed: weak pointers, virtual functions
#include <verbatim/objects.hpp>

struct Shape {
    virtual ~Shape() = default;
    int corners = 0;
};
VERBATIM_DESCRIBE(Shape, corners)
struct Drawing {
    std::pmr::vector<Shape*> shapes;
};
VERBATIM_COMPOSED(Drawing);

void compose_one(verbatim::Connection& connection) {
    auto message = verbatim::compose<Drawing>(connection);
    message->shapes.push_back(message.make<Shape>());
}
