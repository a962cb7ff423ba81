// expect: member pointers and nullptr_t
// expect: sent_field<X, 0, int X::
#include <verbatim/objects.hpp>
struct X {
    int X::*p;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
