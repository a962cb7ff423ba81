// expect: neither a raw pointer nor a unique_ptr<T[]>
#include <verbatim/objects.hpp>
struct X {
    std::vector<int> p;
    int n;
};
VERBATIM_DESCRIBE(X, p, n)
VERBATIM_COUNTED(X, (p, n))
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
