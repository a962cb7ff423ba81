// expect: base class
// expect: VERBATIM_DESCRIBE_DERIVED
#include <verbatim/objects.hpp>
struct B {
    int a;
};
struct X : B {
    int b;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
