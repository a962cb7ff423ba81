// The public headers with types of a namespace that is full of deleted functions (user_names.py).
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <verbatim/objects.hpp>

namespace user {

enum class Colour : unsigned char { kRed, kBlue };
struct Leaf {
    int a;
    double b;
};
struct Base {
    virtual ~Base() = default;
    int x = 0;
};
struct Derived : Base {
    Derived* next = nullptr;
    std::string s;
};
struct Managed : std::enable_shared_from_this<Managed> {
    int v = 0;
    std::weak_ptr<Managed> w;
};
struct Box {
    double w;
    Leaf l;
};
struct Mutexed {
    std::size_t size = 0;
    Leaf* leaves = nullptr;
    int* cache = nullptr;
    bool ok = true;
};
inline bool check_mutexed(const Mutexed& m) { return m.ok; }
struct Node {
    Colour colour{};
    std::vector<Leaf> leaves;
    std::vector<Node*> nodes;
    std::vector<std::string> strings;
    std::vector<bool> bits;
    std::pmr::vector<Leaf> pleaves;
    std::pmr::string pstring;
    std::list<Leaf> list;
    std::map<int, Leaf> map;
    std::map<std::string, Node*> pmap;
    std::set<std::string> set;
    std::unordered_map<std::string, Leaf> umap;
    std::unordered_set<int> uset;
    std::unordered_map<int, std::unique_ptr<Node>> cmap;
    std::deque<Leaf> deque;
    std::optional<Leaf> optional;
    std::variant<int, Leaf, std::string> variant;
    std::variant<int, Node*> v2;
    std::unique_ptr<Node> unique;
    std::shared_ptr<Leaf> shared;
    std::weak_ptr<Leaf> weak;
    std::shared_ptr<Managed> managed;
    std::span<Leaf> span;
    std::string_view view;
    std::pair<int, Leaf> pair;
    std::tuple<int, Leaf, std::string> tuple;
    std::array<Leaf, 3> array;
    Node* self = nullptr;
    const Leaf* cl = nullptr;
    Base* base = nullptr;
    std::unique_ptr<Base> ubase;
    Mutexed m;
    std::deque<Node*> dn;
    std::vector<std::unique_ptr<Node>> un;
    std::optional<std::string> os;
    std::vector<Box> boxes;
    std::shared_ptr<Base> sbase;
};
VERBATIM_DESCRIBE(Base, x)
VERBATIM_DESCRIBE_DERIVED(Derived, (Base), next, s)
VERBATIM_DESCRIBE_DERIVED(Managed, (std::enable_shared_from_this<Managed>), v, w)
VERBATIM_DESCRIBE(Node, colour, leaves, nodes, strings, bits, pleaves, pstring, list, map, pmap,
                  set, umap, uset, cmap, deque, optional, variant, v2, unique, shared, weak,
                  managed, span, view, pair, tuple, array, self, cl, base, ubase, m, dn, un, os,
                  boxes, sbase)
VERBATIM_DESCRIBE(Mutexed, size, leaves, cache, ok)
VERBATIM_COUNTED(Mutexed, (leaves, size))
VERBATIM_TRANSIENT(Mutexed, cache)
VERBATIM_VALIDATE(Mutexed, check_mutexed)
struct Tree {
    Leaf leaf;
    std::vector<Tree> kids;
    std::unique_ptr<Tree> u;
    std::map<std::string, Leaf> m;
    std::shared_ptr<Leaf> s;
    std::weak_ptr<Leaf> w;
    std::optional<Leaf> o;
    std::list<std::string> l;
    std::unordered_map<int, Leaf> um;
    std::deque<Leaf> d;
    std::variant<int, Leaf> v;
    std::unique_ptr<Base> b;
    std::set<std::string> se;
};
VERBATIM_DESCRIBE(Tree, leaf, kids, u, m, s, w, o, l, um, d, v, b, se)
struct Stop {
    std::pmr::string name;
    Stop* next = nullptr;
    Leaf leaf;
};
struct Line {
    std::pmr::vector<Stop*> stops;
    std::pmr::map<std::pmr::string, Leaf> minutes;
    std::pmr::deque<Leaf> d;
    std::pmr::list<Stop> l;
    std::pmr::unordered_map<int, Stop> um;
    std::optional<Stop> o;
    std::pmr::set<int> s;
    std::pmr::vector<Stop> vs;
    std::span<Leaf> sp;
    std::variant<int, Stop*> var;
};
struct Fan {
    Fan* a;
    Fan* b;
    Fan* c;
    std::pair<Leaf, Fan*> p;
};
struct L1 {
    int v;
    L1* next;
};
}  // namespace user
VERBATIM_COMPOSED(user::Line);
void use(verbatim::Arena& ar, verbatim::Connection& c, const user::Node& n) {
    verbatim::send(c, n);
    auto r = verbatim::receive<user::Node>(c);
    auto t = verbatim::receive<user::Tree>(c);
    auto cl = t.clone();
    verbatim::save("/tmp/x", n);
    verbatim::save_placed("/tmp/x", user::Fan{});
    auto v = verbatim::map<user::Node>("/tmp/x");
    auto w = verbatim::map<const user::Tree>("/tmp/x", {.trusted = true});
    auto line = verbatim::compose<user::Line>(c);
    line->stops.push_back(line.make<user::Stop>());
    line.seat(*line->stops.back());
    verbatim::send(c, line);
    auto li = verbatim::receive<user::Line>(c);
    verbatim::receive<user::Fan>(c);
    verbatim::send(c, user::Fan{});
    verbatim::receive<user::L1>(c);
    verbatim::send(c, user::L1{});
    verbatim::send(c, std::vector<user::Leaf>{});
    verbatim::receive<std::vector<user::Leaf>>(c);
    verbatim::receive<std::vector<user::L1*>>(c);
    auto a = verbatim::send_async(c, n);
    auto b = verbatim::receive_async<user::Node>(c, {}, [](verbatim::Receiving<user::Node>&) {});
    auto ba = verbatim::receive_async<user::Tree>(c);
    verbatim::Received<user::Node> fw = verbatim::receive<user::Node>(c, {.forwardable = true});
    verbatim::send(c, fw);
    auto part = t.part(&t->leaf);
    auto prom = t.promote(&t->leaf);
    prom.mutable_view().a = 1;
    auto p2 = r.promote(r->self);
    const std::list<user::Node> l0;
    (void)verbatim::send_each(c, l0);
    for (const auto& e : verbatim::receive_each<user::Tree>(c)) (void)e->leaf;
    auto h = verbatim::send_async(c, line);
    auto h2 = verbatim::send_async(c, fw);
    if (h.test()) (void)h.report();
    verbatim::Arena& arena = ar;
    auto* q = arena.make<user::Line>();
    (void)q;
    verbatim::receive<std::variant<user::Leaf, std::string>>(c);
    verbatim::receive<std::vector<bool>>(c);
    verbatim::receive<std::unordered_map<std::string, std::vector<user::Box>>>(c);
}
