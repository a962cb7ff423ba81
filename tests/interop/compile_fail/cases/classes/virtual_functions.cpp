// expect: this class has virtual functions, so it must be described
#include <verbatim/objects.hpp>
struct X {
    virtual ~X();
    int a;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
