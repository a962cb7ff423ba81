// expect: does not know its length; name the member that has it in VERBATIM_COUNTED
// expect: sent_field<X, 0, std::unique_ptr<int
#include <memory>
#include <verbatim/objects.hpp>
struct X {
    std::unique_ptr<int[]> p;
    int n;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
