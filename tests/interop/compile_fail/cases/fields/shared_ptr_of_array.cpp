// expect: a shared pointer to an array does not know its length
// expect: sent_field<X, 0, std::shared_ptr<int
#include <memory>
#include <verbatim/objects.hpp>
struct X {
    std::shared_ptr<int[]> p;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
