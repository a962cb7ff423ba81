// expect: assignment of member
// only: g++
#include <verbatim/objects.hpp>
struct X {
    int number = 0;
};
void use() { verbatim::map<const X>("x").mutable_view().number = 1; }
