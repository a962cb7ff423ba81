// The checksum notices every change that a broken transfer could make.
#include "packages/checksum.hpp"

#include <functional>

#include "packages_test_support.hpp"

namespace packages {
namespace {

constexpr std::string_view kText =
    "Package: aa\nVersion: 1\nMaintainer: One <one@x>\nInstalled-Size: 5\nDepends: bb (>= 2) | "
    "cc:any\n"
    "Section: admin\nPriority: required\nStatus: install ok installed\nArchitecture: "
    "all\nHomepage: h\n"
    "Source: s\nTag: t\nDescription: short\n long\n\n"
    "Package: bb\nVersion: 2\nMaintainer: One <one@x>\nDepends: aa, aa\nProvides: cc (= 7)\n\n"
    "Package: dd\nVersion: 1\nMaintainer: Two\n";

std::uint64_t sum_of(const Graph& graph) { return Checksum(graph).sum(); }

// Of package aa.
Version& version(Graph& graph) { return graph.packages[0].versions[0]; }
// "bb (>= 2)", or'd with "cc:any".
Dependency& dependency(Graph& graph) { return version(graph).dependencies[0]; }

using Change = std::function<void(Graph&)>;

TEST(Checksum, does_not_depend_on_addresses) {
    const Built first(kText);
    std::pmr::unsynchronized_pool_resource other;
    const auto shift = std::make_unique<std::string>(1000, 'x');
    const Graph* second = build_graph(parse_database(std::string(kText), "test"), other);
    EXPECT_EQ(sum_of(*first.graph), sum_of(*second));
}

// Every field of every type, one after the other.
const std::vector<std::pair<std::string, Change>>& changes() {
    static const std::vector<std::pair<std::string, Change>> all{
        {"package.name", [](Graph& g) { g.packages[0].name = "ab"; }},
        {"package.versions", [](Graph& g) { g.packages[0].versions.clear(); }},
        {"package.provided_by", [](Graph& g) { g.packages[2].provided_by.clear(); }},
        {"package.required_by", [](Graph& g) { g.packages[0].required_by.pop_back(); }},
        {"version.maintainer", [](Graph& g) { version(g).maintainer = nullptr; }},
        {"version.architecture", [](Graph& g) { version(g).architecture = nullptr; }},
        {"version.number", [](Graph& g) { version(g).number += '0'; }},
        {"version.section", [](Graph& g) { version(g).section = "admio"; }},
        {"version.priority", [](Graph& g) { version(g).priority = ""; }},
        {"version.status", [](Graph& g) { version(g).status = ""; }},
        {"version.source", [](Graph& g) { version(g).source = "S"; }},
        {"version.homepage", [](Graph& g) { version(g).homepage = "H"; }},
        {"version.summary", [](Graph& g) { version(g).summary[0] ^= 1; }},
        {"version.description", [](Graph& g) { version(g).description[1] ^= 1; }},
        {"version.installed_kib", [](Graph& g) { ++version(g).installed_kib; }},
        {"version.multi_arch", [](Graph& g) { version(g).multi_arch = MultiArch::same; }},
        {"version.essential", [](Graph& g) { version(g).essential = true; }},
        {"version.dependencies", [](Graph& g) { version(g).dependencies.pop_back(); }},
        {"version.provisions", [](Graph& g) { g.packages[1].versions[0].provisions.clear(); }},
        {"version.other_fields", [](Graph& g) { version(g).other_fields.clear(); }},
        {"field.name", [](Graph& g) { version(g).other_fields[0].name = "H"; }},
        {"field.value", [](Graph& g) { version(g).other_fields[0].value = "H"; }},
        {"dependency.target", [](Graph& g) { dependency(g).target = &g.packages[2]; }},
        {"dependency.architecture",
         [](Graph& g) { dependency(g).architecture = g.architectures[0]; }},
        {"dependency.version", [](Graph& g) { dependency(g).version = "3"; }},
        {"dependency.kind", [](Graph& g) { dependency(g).kind = Kind::suggests; }},
        {"dependency.relation", [](Graph& g) { dependency(g).relation = Relation::later; }},
        {"dependency.or_next", [](Graph& g) { dependency(g).or_next = false; }},
        {"provision.package",
         [](Graph& g) { g.packages[1].versions[0].provisions[0].package = &g.packages[0]; }},
        {"provision.version",
         [](Graph& g) { g.packages[1].versions[0].provisions[0].version = "8"; }},
        {"maintainer.name", [](Graph& g) { g.maintainers[0]->name = "Two"; }},
        {"maintainer.email", [](Graph& g) { g.maintainers[0]->email = ""; }},
        {"maintainer.packages", [](Graph& g) { g.maintainers[0]->packages.pop_back(); }},
        {"architecture.name", [](Graph& g) { g.architectures[0]->name = "none"; }},
        {"graph.packages", [](Graph& g) { g.packages.pop_back(); }},
        {"graph.maintainers", [](Graph& g) { std::swap(g.maintainers[0], g.maintainers[1]); }},
        {"graph.architectures", [](Graph& g) { g.architectures.clear(); }},
    };
    return all;
}

TEST(Checksum, differs_when_any_field_differs) {
    const std::uint64_t original = sum_of(*Built(kText).graph);
    for (const auto& [field, change] : changes()) {
        const Built built(kText);
        change(*built.graph);
        EXPECT_NE(sum_of(*built.graph), original) << field;
    }
}

TEST(Checksum, differs_when_sharing_is_lost) {
    const Built built(kText);
    const std::uint64_t original = sum_of(*built.graph);
    Maintainer*& maintainer = built.package("bb")->versions[0].maintainer;
    Maintainer copy(*maintainer);  // equal in every field, but not the same object
    maintainer = &copy;
    EXPECT_NE(sum_of(*built.graph), original);
}

TEST(Checksum, differs_when_two_equal_objects_become_one) {
    struct Pair {
        int* first;
        int* second;
    };
    int a = 7, b = 7;
    EXPECT_NE(Checksum(Pair{&a, &b}).sum(), Checksum(Pair{&a, &a}).sum());
}

TEST(Checksum, differs_when_a_circle_is_opened) {
    const Built built(kText);
    const std::uint64_t original = sum_of(*built.graph);
    Package other(*built.package("aa"));
    built.package("bb")->versions[0].dependencies[0].target = &other;
    EXPECT_NE(sum_of(*built.graph), original);
}

// A pointer to an element is a pointer to that element, whichever of the two the walk meets first.
TEST(Checksum, tells_elements_of_lists_from_their_copies) {
    struct Item {
        int value;
    };
    struct Root {
        Item* chosen;
        std::vector<Item> items;
    };
    Root root{nullptr, {{1}, {1}}};
    Item copy{1};
    root.chosen = &copy;
    const std::uint64_t outside = Checksum(root).sum();
    root.chosen = &root.items[0];
    const std::uint64_t first = Checksum(root).sum();
    root.chosen = &root.items[1];
    EXPECT_NE(first, outside);
    EXPECT_NE(Checksum(root).sum(), first);
    EXPECT_NE(Checksum(root).sum(), outside);
}

TEST(Checksum, counts_objects_once) {
    struct Node {
        int value;
        Node* next;
        Node* other;
    };
    Node b{2, nullptr, nullptr};
    Node a{1, &b, &b};
    b.next = &a;
    EXPECT_EQ(Checksum(a).objects(), 2u);
}

TEST(Checksum, walks_long_lists_without_recursion) {
    struct Node {
        double value;
        Node* next;
    };
    std::vector<Node> nodes(500'000);
    for (std::size_t i = 0; i + 1 < nodes.size(); ++i) nodes[i].next = &nodes[i + 1];
    const std::uint64_t open = Checksum(nodes[0]).sum();
    nodes.back().value = 1.0;
    EXPECT_NE(Checksum(nodes[0]).sum(), open);
}

}  // namespace
}  // namespace packages
