// expect: cannot be sent yet
#include <verbatim/objects.hpp>
#include <memory>
struct X { std::shared_ptr<int> p; };
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
