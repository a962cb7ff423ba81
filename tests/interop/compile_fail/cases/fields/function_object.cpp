// expect: this standard type cannot be sent
// expect: sent_field<X, 0, std::function<void
#include <functional>
#include <verbatim/objects.hpp>
struct X {
    std::function<void()> f;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
