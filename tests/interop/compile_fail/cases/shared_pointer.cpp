// expect: cannot be sent yet
#include <memory>
#include <verbatim/objects.hpp>
struct X {
    std::shared_ptr<int> p;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
