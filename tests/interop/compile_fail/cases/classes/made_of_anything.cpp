// expect: its first member can be made of anything; then add VERBATIM_DESCRIBE
#include <verbatim/objects.hpp>
struct Value {
    int number = 0;
    Value() = default;
    template <class T>
    Value(T);
};
VERBATIM_DESCRIBE(Value, number)
struct None {};
struct X {
    Value first;
    int second;
    None third;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
