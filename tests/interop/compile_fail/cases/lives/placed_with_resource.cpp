// expect: holds addresses of its process; use save()
#include <string>
#include <verbatim/objects.hpp>
struct X {
    std::pmr::string text;
};
void use(const X& x) { verbatim::save_placed("x", x); }
