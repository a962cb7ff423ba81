// expect: elements of a priority queue must be numbers, enums, strings
// expect: sent_field<X, 0, std::priority_queue<int
#include <queue>
#include <verbatim/objects.hpp>
struct X {
    std::priority_queue<int*> m;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
