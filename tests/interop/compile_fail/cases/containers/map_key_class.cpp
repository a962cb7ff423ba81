// expect: keys must be numbers, enums, strings
#include <map>
#include <string_view>
#include <verbatim/objects.hpp>
struct Key {
    int number;
    std::string_view name;
    bool operator<(const Key& other) const { return number < other.number; }
};
struct X {
    std::map<Key, int> m;
};
void use(verbatim::Connection& c, const X& x) { verbatim::send(c, x); }
