// expect: this standard type cannot be sent
// expect: sent_field<X, 1, std::mutex>
#include <mutex>
#include <verbatim/objects.hpp>
struct X {
    int a;
    std::mutex m;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
