// expect: unordered containers need a hash function and an equality without state
// expect: sent_field<X, 0, std::unordered_set<int, Seeded>
#include <unordered_set>
#include <verbatim/objects.hpp>
struct Seeded {
    std::size_t seed = 0;
    std::size_t operator()(int value) const { return static_cast<std::size_t>(value) ^ seed; }
};
struct X {
    std::unordered_set<int, Seeded> s;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
