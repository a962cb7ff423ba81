// expect: names a count that is not an integer
#include <verbatim/objects.hpp>
struct X {
    int* p;
    float n;
};
VERBATIM_DESCRIBE(X, p, n)
VERBATIM_COUNTED(X, (p, n))
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
