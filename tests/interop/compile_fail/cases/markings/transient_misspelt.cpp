// expect: names something that is not a described member
#include <verbatim/objects.hpp>
struct X {
    int a, b;
};
VERBATIM_DESCRIBE(X, a, b)
VERBATIM_TRANSIENT(X, c)
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
