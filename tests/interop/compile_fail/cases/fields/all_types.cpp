// expect-ok
#include <verbatim/objects.hpp>
struct X {
    std::tuple<int, std::string> t;
    std::variant<std::monostate, X*, std::string> v;
    std::bitset<9> b;
    std::string_view view;
    std::span<const X> span;
    const char* text;
    std::shared_ptr<X> shared;
    std::weak_ptr<X> weak;
    std::complex<double> c;
    std::chrono::nanoseconds n;
};
void use(verbatim::Connection& c, const X& x) {
    verbatim::send(c, x);
    verbatim::receive<X>(c);
}
