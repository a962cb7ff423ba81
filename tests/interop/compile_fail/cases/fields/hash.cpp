// expect: unordered containers need std::hash and std::equal_to
#include <unordered_set>
#include <verbatim/objects.hpp>
struct Same {
    std::size_t operator()(int) const { return 0; }
};
struct X {
    std::unordered_set<int, Same> s;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
