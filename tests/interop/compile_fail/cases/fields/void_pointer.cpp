// expect: void pointer
// expect: sent_field<X, 0, void
// expect: typed pointer
#include <verbatim/objects.hpp>
struct X {
    void* p;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
