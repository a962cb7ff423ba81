// expect: cannot be sent yet
#include <verbatim/objects.hpp>
#include <map>
struct X { std::map<int, int> m; };
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
