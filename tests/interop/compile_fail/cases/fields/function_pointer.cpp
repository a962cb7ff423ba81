// expect: a function pointer means nothing
// expect: sent_field<X, 0, void (*)()>
#include <verbatim/objects.hpp>
struct X {
    void (*f)();
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
