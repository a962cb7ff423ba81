// expect: C array
#include <verbatim/objects.hpp>
struct X {
    int a[2];
    int b;
};
void use(verbatim::Connection& c) { verbatim::receive<X>(c); }
