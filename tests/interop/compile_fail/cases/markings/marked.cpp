// expect-ok
#include <any>
#include <memory>
#include <mutex>
#include <verbatim/objects.hpp>
class X : public std::enable_shared_from_this<X> {
    std::mutex m;
    std::any a;
    std::unique_ptr<int[]> p;
    int n = 0;
    bool is_valid() const { return n >= 0; }
    BOOST_DESCRIBE_CLASS(X, (std::enable_shared_from_this<X>), (), (), (m, a, p, n))

  public:
    static bool check(const X& x) { return x.is_valid(); }
};
VERBATIM_TRANSIENT(X, m, a)
VERBATIM_COUNTED(X, (p, n))
VERBATIM_VALIDATE(X, &X::check)
void use(verbatim::Connection& c, const X& x) {
    verbatim::send(c, x);
    verbatim::receive<X>(c);
}
