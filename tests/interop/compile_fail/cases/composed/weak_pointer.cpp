// expect: a type of this graph cannot be composed
#include <memory>

#include <verbatim/objects.hpp>

struct Node {
    std::weak_ptr<Node> parent;
};
VERBATIM_COMPOSED(Node);

void compose_one(verbatim::Connection& connection) {
    auto message = verbatim::compose<Node>(connection);
    message->parent.reset();
}
