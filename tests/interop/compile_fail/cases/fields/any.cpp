// expect: this standard type cannot be sent
// expect: sent_field<X, 1, std::any>
#include <any>
#include <verbatim/objects.hpp>
struct X {
    int a;
    std::any b;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
