// expect: packed
// expect: VERBATIM_DESCRIBE
#include <verbatim/objects.hpp>
struct __attribute__((packed)) X {
    char a;
    int b;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
