// expect: volatile members cannot be sent
#include <verbatim/objects.hpp>
struct X {
    volatile int number = 0;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
