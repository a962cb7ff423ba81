// expect: C array
// expect: VERBATIM_DESCRIBE
#include <verbatim/objects.hpp>
struct X {
    int a[3];
    double b;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
