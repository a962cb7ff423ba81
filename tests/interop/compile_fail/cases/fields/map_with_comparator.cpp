// expect: sent_field<X, 0, std::map<int, int, Backwards
#include <map>
#include <verbatim/objects.hpp>
struct Backwards {
    bool operator()(int a, int b) const { return a > b; }
};
struct X {
    std::map<int, int, Backwards> m;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
