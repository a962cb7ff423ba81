// expect-ok
#include <array>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <verbatim/objects.hpp>
struct X {
    std::map<std::pair<const std::string, std::optional<int>>, X, std::greater<>> map;
    std::multimap<double, X*> multimap;
    std::set<std::array<short, 2>> set;
    std::unordered_map<std::string, X> table;
    std::unordered_multiset<long> bag;
    std::list<X> list;
    std::forward_list<std::string> chain;
    std::deque<X*> deque;
    std::vector<bool> bits;
};
void use(verbatim::Connection& c, const X& x) {
    verbatim::send(c, x);
    verbatim::receive<X>(c);
}
