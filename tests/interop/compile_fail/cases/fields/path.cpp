// expect: std::filesystem::path cannot be sent; send its string()
// expect: sent_field<X, 0, std::filesystem::
#include <filesystem>
#include <verbatim/objects.hpp>
struct X {
    std::filesystem::path p;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
