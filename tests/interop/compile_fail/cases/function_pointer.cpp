// expect: function pointer
#include <verbatim/objects.hpp>
struct X {
    void (*f)();
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
