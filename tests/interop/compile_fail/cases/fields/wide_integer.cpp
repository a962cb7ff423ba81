// expect: __int128 and vector types are no numbers of C++
#include <verbatim/objects.hpp>
struct X {
    __int128 number;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
