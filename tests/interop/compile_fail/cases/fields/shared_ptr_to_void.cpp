// expect: a shared pointer to void does not say what it points to
// expect: sent_field<X, 0, std::shared_ptr<void>
#include <memory>
#include <verbatim/objects.hpp>
struct X {
    std::shared_ptr<void> p;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
