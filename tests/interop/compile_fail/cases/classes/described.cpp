// expect-ok
#include <verbatim/objects.hpp>
struct X {
    int a[3];
    double b;
};
VERBATIM_DESCRIBE(X, a, b)
struct Base {
    int a;
};
VERBATIM_DESCRIBE(Base, a)
struct Derived : Base {
    std::string b;
};
VERBATIM_DESCRIBE_DERIVED(Derived, (Base), b)
class Hidden {
    int a = 0;
    VERBATIM_DESCRIBE_PRIVATE(Hidden, a) public : explicit Hidden(int);
};
struct Y {
    X* x;
    Derived d;
    std::vector<Hidden*> h;
};
void use(verbatim::Connection& c, const Y& y) {
    verbatim::send(c, y);
    verbatim::receive<Y>(c);
}
