// expect: ordered containers need std::less or std::greater
#include <map>
#include <verbatim/objects.hpp>
struct ByDigits {
    bool operator()(int a, int b) const { return a % 10 < b % 10; }
};
struct X {
    std::map<int, int, ByDigits> m;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
