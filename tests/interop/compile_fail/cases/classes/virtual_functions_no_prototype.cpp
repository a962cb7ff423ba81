// expect: add VERBATIM_PROTOTYPE
#include <verbatim/objects.hpp>
struct X {
    explicit X(int a);
    virtual ~X();
    int a;
};
VERBATIM_DESCRIBE(X, a)
void use(verbatim::Connection& c) { verbatim::receive<X>(c); }
