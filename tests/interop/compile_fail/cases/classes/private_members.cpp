// expect: private members
// expect: VERBATIM_DESCRIBE_PRIVATE
#include <verbatim/objects.hpp>
class X {
    int a = 0;

  public:
    explicit X(int);
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
