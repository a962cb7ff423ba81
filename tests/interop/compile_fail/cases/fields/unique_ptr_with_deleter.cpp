// expect: whose deleter holds something
// expect: sent_field<X, 0, std::unique_ptr<int
#include <memory>
#include <verbatim/objects.hpp>
struct X {
    std::unique_ptr<int, void (*)(int*)> p;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
