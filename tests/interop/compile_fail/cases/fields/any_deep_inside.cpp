// expect: this standard type cannot be sent
// expect: sent_field<Y, 1,
#include <any>
#include <verbatim/objects.hpp>
struct Y {
    Y* y;
    std::vector<std::optional<std::any>> b;
};
struct X {
    std::unique_ptr<Y> y;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
