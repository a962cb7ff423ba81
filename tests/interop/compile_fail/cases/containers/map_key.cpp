// expect: keys must be numbers, enums, strings
// expect: sent_field<X, 0, std::map<int
#include <map>
#include <verbatim/objects.hpp>
struct X {
    std::map<int*, int> m;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
