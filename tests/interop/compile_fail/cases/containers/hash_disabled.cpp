// expect: unordered containers need a hash function and an equality without state
#include <unordered_set>
#include <utility>
#include <verbatim/objects.hpp>
struct X {
    std::unordered_set<std::pair<int, int>>* s;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
