// expect: need VERBATIM_DESCRIBE
#include <verbatim/objects.hpp>
struct X {
    int a, b;
};
VERBATIM_TRANSIENT(X, b)
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
