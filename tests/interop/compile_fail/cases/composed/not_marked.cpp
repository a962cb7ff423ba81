// expect: compose() needs VERBATIM_COMPOSED(type) beside the definition of the root's type
#include <verbatim/objects.hpp>

void compose_one(verbatim::Connection& connection) {
    auto message = verbatim::compose<std::pmr::vector<int>>(connection);
    message->push_back(1);
}
