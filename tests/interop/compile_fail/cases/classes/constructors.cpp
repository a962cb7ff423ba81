// expect: this class has constructors
// expect: VERBATIM_DESCRIBE
// expect: sent_field<X, 0, Y>
#include <verbatim/objects.hpp>
struct Y {
    explicit Y(int);
    int a;
};
struct X {
    Y y;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
