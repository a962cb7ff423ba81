// expect: bit-field
// expect: VERBATIM_DESCRIBE
// only: g++
#include <verbatim/objects.hpp>
struct X {
    unsigned a : 3;
    int b;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
