// expect: union
#include <verbatim/objects.hpp>
union V {
    int a;
    float b;
};
struct X {
    V v;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
