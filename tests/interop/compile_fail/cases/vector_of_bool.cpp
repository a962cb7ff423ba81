// expect: std::vector<std::uint8_t>
#include <verbatim/objects.hpp>
struct X {
    std::vector<bool> v;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
