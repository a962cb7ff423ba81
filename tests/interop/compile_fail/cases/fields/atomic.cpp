// expect: this standard type cannot be sent
#include <atomic>
#include <memory>
#include <verbatim/objects.hpp>
struct X {
    std::atomic<std::shared_ptr<int>> m;
};
VERBATIM_DESCRIBE(X, m)
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
