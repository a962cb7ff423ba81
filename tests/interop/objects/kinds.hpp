// Types with every kind of field that graphs may have, for random graphs (kinds_maker.hpp) and
// their comparison (kinds_twins.hpp). kMembers is for the comparison alone.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <complex>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <verbatim/objects.hpp>

namespace verbatim::kinds {

struct Leaf {
    double value = 0;
    int number = 0;
    bool flag = false;
    static constexpr auto kMembers = std::tuple(&Leaf::value, &Leaf::number, &Leaf::flag);
};
struct Couple {
    Leaf one, two;
    static constexpr auto kMembers = std::tuple(&Couple::one, &Couple::two);
};
enum class Color : std::uint8_t { red, green, blue };

struct Values {
    bool flag = false;
    char letter = 0;
    std::int16_t small = 0;
    std::uint64_t large = 0;
    float real = 0;
    Color color = Color::red;
    std::complex<float> complex;
    std::chrono::nanoseconds duration{};
    std::chrono::system_clock::time_point when{};
    std::array<std::int16_t, 3> numbers{};
    int grid[2][3]{};
    std::bitset<70> bits;
    std::pair<int, bool> pair;
    std::tuple<char, double, std::uint64_t> tuple;
    std::optional<int> maybe;
    std::vector<bool> flags;
    static constexpr auto kMembers =
        std::tuple(&Values::flag, &Values::letter, &Values::small, &Values::large, &Values::real,
                   &Values::color, &Values::complex, &Values::duration, &Values::when,
                   &Values::numbers, &Values::grid, &Values::bits, &Values::pair, &Values::tuple,
                   &Values::maybe, &Values::flags);
};
VERBATIM_DESCRIBE(Values, flag, letter, small, large, real, color, complex, duration, when, numbers,
                  grid, bits, pair, tuple, maybe, flags)

// Counted pointers, a member that stays behind, a validator.
struct Table {
    std::uint32_t size = 0;
    const Leaf* leaves = nullptr;
    std::unique_ptr<std::string[]> names;
    int name_count = 0;
    int cache = 0;
};
VERBATIM_DESCRIBE(Table, size, leaves, names, name_count, cache)
VERBATIM_COUNTED(Table, (leaves, size), (names, name_count))
VERBATIM_TRANSIENT(Table, cache)
inline bool is_valid(const Table& table) { return table.name_count < 100; }
VERBATIM_VALIDATE(Table, is_valid)

struct Node;

struct Links {
    Node* next = nullptr;
    Node* inner = nullptr;  // an element of a container of the root
    const Leaf* leaf = nullptr;
    const double* value = nullptr;
    Couple* couple = nullptr;
    std::array<Node*, 2> both{};
    std::vector<Node*> many;
    std::span<const Leaf> span;
    static constexpr auto kMembers =
        std::tuple(&Links::next, &Links::inner, &Links::leaf, &Links::value, &Links::couple,
                   &Links::both, &Links::many, &Links::span);
};
struct Owners {
    std::unique_ptr<Node> owned;
    std::shared_ptr<Node> shared;
    std::optional<std::string> name;
    std::optional<Leaf> maybe;
    std::variant<int, std::string, Leaf, std::unique_ptr<Leaf>, Node*> one;
    std::vector<Leaf> leaves;
    static constexpr auto kMembers = std::tuple(&Owners::owned, &Owners::shared, &Owners::name,
                                                &Owners::maybe, &Owners::one, &Owners::leaves);
};
struct Texts {
    std::string text;
    const char* characters = nullptr;
    std::string_view view;
    std::u16string wide;
    static constexpr auto kMembers =
        std::tuple(&Texts::text, &Texts::characters, &Texts::view, &Texts::wide);
};
struct Lists {
    std::list<Leaf> list;
    std::forward_list<std::string> chain;
    std::deque<Leaf> queue;
    std::vector<std::vector<int>> rows;
    static constexpr auto kMembers =
        std::tuple(&Lists::list, &Lists::chain, &Lists::queue, &Lists::rows);
};
struct Maps {
    std::map<int, Leaf> map;
    std::multimap<std::string, int> multimap;
    std::set<std::string> set;
    std::multiset<int> multiset;
    static constexpr auto kMembers =
        std::tuple(&Maps::map, &Maps::multimap, &Maps::set, &Maps::multiset);
};
struct Hashes {
    std::unordered_map<int, Leaf> map;
    std::unordered_multimap<std::string, int> multimap;
    std::unordered_set<std::string> set;
    std::unordered_multiset<std::uint16_t> multiset;
    static constexpr auto kMembers =
        std::tuple(&Hashes::map, &Hashes::multimap, &Hashes::set, &Hashes::multiset);
};
struct Pmr {
    std::pmr::string text;
    std::pmr::vector<Leaf> leaves;
    std::pmr::list<std::pmr::string> list;
    std::pmr::map<int, Node*> map;
    std::pmr::unordered_map<int, int> hashes;
    std::pmr::deque<int> queue;
    static constexpr auto kMembers =
        std::tuple(&Pmr::text, &Pmr::leaves, &Pmr::list, &Pmr::map, &Pmr::hashes, &Pmr::queue);
};
struct Node {
    int id = 0;
    Links links;
    Owners owners;
    Texts texts;
    Lists lists;
    Maps maps;
    Hashes hashes;
    Pmr pmr;
    Table table;
    Values values;
    static constexpr auto kMembers =
        std::tuple(&Node::id, &Node::links, &Node::owners, &Node::texts, &Node::lists, &Node::maps,
                   &Node::hashes, &Node::pmr, &Node::table, &Node::values);
};

// Pointers of all kinds to anything, also to what lies inside of containers.
struct Network {
    const Leaf* first = nullptr;  // met before what it lies in
    std::vector<Node> vertices;
    std::list<Node> listed;
    std::map<int, Node> mapped;
    std::deque<Node> queued;
    Node* start = nullptr;
    std::vector<std::string> texts;
    static constexpr auto kMembers =
        std::tuple(&Network::first, &Network::vertices, &Network::listed, &Network::mapped,
                   &Network::queued, &Network::start, &Network::texts);
};

// Shared ownership with counts.
struct Person : std::enable_shared_from_this<Person> {
    std::string name;
    std::shared_ptr<Person> best;
    std::weak_ptr<Person> other;
    std::vector<std::shared_ptr<Person>> friends;
    std::shared_ptr<const Leaf> leaf;
    static constexpr auto kMembers =
        std::tuple(&Person::name, &Person::best, &Person::other, &Person::friends, &Person::leaf);
};
VERBATIM_DESCRIBE_DERIVED(Person, (std::enable_shared_from_this<Person>), name, best, other,
                          friends, leaf)
struct Household {
    std::weak_ptr<Person> head, gone;
    std::vector<std::shared_ptr<Person>> people;
    static constexpr auto kMembers =
        std::tuple(&Household::head, &Household::gone, &Household::people);
};

// Owners alone: containers whose nodes are packed with their values.
struct Branch {
    std::string name;
    std::vector<Branch> children;
    std::unique_ptr<Branch> owned;
    std::list<std::string> list;
    std::map<std::string, std::vector<int>> map;
    std::unordered_map<int, std::string> hashes;
    std::pmr::vector<std::pmr::string> texts;
    std::deque<std::optional<Leaf>> queue;
    std::vector<std::unique_ptr<Leaf>> leaves;
    Values values;
    static constexpr auto kMembers = std::tuple(
        &Branch::name, &Branch::children, &Branch::owned, &Branch::list, &Branch::map,
        &Branch::hashes, &Branch::texts, &Branch::queue, &Branch::leaves, &Branch::values);
};

}  // namespace verbatim::kinds
