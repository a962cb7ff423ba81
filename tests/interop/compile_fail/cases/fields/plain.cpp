// expect-ok
#include <array>
#include <verbatim/objects.hpp>
struct X {
    std::string s;
    std::vector<X> v;
    std::array<std::string, 2> a;
    X* next;
    std::unique_ptr<X> owned;
    std::optional<int> o;
};
void use(verbatim::Connection& c, const X& x) {
    verbatim::send(c, x);
    verbatim::receive<X>(c);
}
