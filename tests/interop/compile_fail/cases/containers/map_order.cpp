// expect: ordered containers need a comparator without state
// expect: sent_field<X, 0, std::map<int, int, ByDigits
#include <map>
#include <verbatim/objects.hpp>
struct ByDigits {
    int base = 10;
    bool operator()(int a, int b) const { return a % base < b % base; }
};
struct X {
    std::map<int, int, ByDigits> m;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
