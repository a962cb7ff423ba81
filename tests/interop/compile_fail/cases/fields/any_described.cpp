// expect: this standard type cannot be sent
// expect: sent_field<X, 1, std::any, &X::second>
#include <any>
#include <verbatim/objects.hpp>
struct X {
    int first[2];
    std::any second;
};
VERBATIM_DESCRIBE(X, first, second)
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
