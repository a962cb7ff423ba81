// expect: a union does not say
// expect: sent_field<X, 0, V>
#include <verbatim/objects.hpp>
union V {
    int a;
    float b;
};
struct X {
    V v;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
