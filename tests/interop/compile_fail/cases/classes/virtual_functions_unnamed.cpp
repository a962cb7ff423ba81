// expect: virtual functions in an anonymous namespace cannot be sent
#include <verbatim/objects.hpp>
namespace {
struct X {
    virtual ~X() = default;
    int a = 0;
};
VERBATIM_DESCRIBE(X, a)
}  // namespace
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
