// expect: a tuple or pair of references
// expect: sent_field<X, 0,
#include <tuple>
#include <verbatim/objects.hpp>
struct X {
    std::tuple<int, const double&> t;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
