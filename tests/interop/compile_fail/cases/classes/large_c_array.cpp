// expect: C array
// expect: VERBATIM_DESCRIBE
#include <verbatim/objects.hpp>
struct X {
    int a;
    char text[4096];
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
