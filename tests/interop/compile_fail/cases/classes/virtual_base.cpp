// expect: virtual
#include <verbatim/objects.hpp>
struct B {
    int b;
};
VERBATIM_DESCRIBE(B, b)
struct X : virtual B {
    int a;
};
VERBATIM_DESCRIBE_DERIVED(X, (B), a)
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
