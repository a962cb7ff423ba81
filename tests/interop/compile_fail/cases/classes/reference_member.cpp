// expect: reference member
// expect: use a pointer
#include <verbatim/objects.hpp>
struct X {
    int a;
    double& r;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
