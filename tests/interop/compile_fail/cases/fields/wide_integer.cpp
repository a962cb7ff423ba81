// expect: __int128 and vector types are no numbers of C++
// expect: sent_field<X, 0, __int128>
#include <verbatim/objects.hpp>
struct X {
    __int128 number;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
