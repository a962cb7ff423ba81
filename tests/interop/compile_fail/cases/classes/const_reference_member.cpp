// expect: reference member
#include <verbatim/objects.hpp>
struct X {
    int a;
    const double& r;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
