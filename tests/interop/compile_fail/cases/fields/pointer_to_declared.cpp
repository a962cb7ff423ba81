// expect: a pointer to a class that is only declared here cannot be sent
// expect: sent_field<X, 1, Hidden
#include <verbatim/objects.hpp>
class Hidden;
struct X {
    int number;
    Hidden* hidden;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
