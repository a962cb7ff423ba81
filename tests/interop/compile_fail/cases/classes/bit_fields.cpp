// expect: bit-field
// expect: VERBATIM_DESCRIBE
#include <verbatim/objects.hpp>
struct X {
    unsigned a : 3;
    unsigned b : 5;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
