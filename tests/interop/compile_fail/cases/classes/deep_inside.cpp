// expect: C array
#include <verbatim/objects.hpp>
struct Y {
    int a[3];
    int b;
};
struct X {
    std::vector<Y*> v;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
