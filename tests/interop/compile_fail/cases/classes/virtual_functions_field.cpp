// expect: std::any
#include <any>

#include <verbatim/objects.hpp>
struct X {
    virtual ~X();
    std::any a;
};
VERBATIM_DESCRIBE(X, a)
