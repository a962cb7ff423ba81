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
    "Description: short\n long\n\n"
    "Package: bb\nVersion: 2\nMaintainer: One <one@x>\nDepends: aa, aa\nProvides: cc (= 7)\n";

std::uint64_t sum_of(const Graph& graph) { return Checksum(graph).sum(); }

// Of "bb (>= 2) | cc:any".
Alternative& first_alternative(Graph& graph) {
    return graph.packages[0]->versions[0]->requirements[0]->alternatives[0];
}

TEST(Checksum, does_not_depend_on_addresses) {
    const Built first(kText);
    std::pmr::unsynchronized_pool_resource other;
    const auto shift = std::make_unique<std::string>(1000, 'x');
    const Graph* second = build_graph(parse_database(std::string(kText), "test"), other);
    EXPECT_EQ(sum_of(*first.graph), sum_of(*second));
}

// Every field of every type, one after the other.
TEST(Checksum, differs_when_any_field_differs) {
    const std::vector<std::pair<std::string, std::function<void(Graph&)>>> changes{
        {"package.name", [](Graph& g) { g.packages[0]->name = "ab"; }},
        {"package.versions", [](Graph& g) { g.packages[0]->versions.clear(); }},
        {"package.provided_by", [](Graph& g) { g.packages[2]->provided_by.clear(); }},
        {"package.required_by", [](Graph& g) { g.packages[0]->required_by.pop_back(); }},
        {"version.package", [](Graph& g) { g.packages[0]->versions[0]->package = g.packages[1]; }},
        {"version.maintainer", [](Graph& g) { g.packages[0]->versions[0]->maintainer = nullptr; }},
        {"version.number", [](Graph& g) { g.packages[0]->versions[0]->number += '0'; }},
        {"version.architecture", [](Graph& g) { g.packages[0]->versions[0]->architecture = ""; }},
        {"version.section", [](Graph& g) { g.packages[0]->versions[0]->section = "admio"; }},
        {"version.priority", [](Graph& g) { g.packages[0]->versions[0]->priority = ""; }},
        {"version.status", [](Graph& g) { g.packages[0]->versions[0]->status = ""; }},
        {"version.summary", [](Graph& g) { g.packages[0]->versions[0]->summary[0] ^= 1; }},
        {"version.description", [](Graph& g) { g.packages[0]->versions[0]->description[1] ^= 1; }},
        {"version.installed_kib", [](Graph& g) { ++g.packages[0]->versions[0]->installed_kib; }},
        {"version.multi_arch",
         [](Graph& g) { g.packages[0]->versions[0]->multi_arch = MultiArch::same; }},
        {"version.essential", [](Graph& g) { g.packages[0]->versions[0]->essential = true; }},
        {"version.requirements",
         [](Graph& g) { g.packages[1]->versions[0]->requirements.pop_back(); }},
        {"version.provisions", [](Graph& g) { g.packages[1]->versions[0]->provisions.clear(); }},
        {"field.name", [](Graph& g) { g.packages[0]->versions[0]->other_fields[0].name = "H"; }},
        {"field.value", [](Graph& g) { g.packages[0]->versions[0]->other_fields[0].value = "H"; }},
        {"requirement.owner",
         [](Graph& g) {
             g.packages[0]->versions[0]->requirements[0]->owner = g.packages[1]->versions[0];
         }},
        {"requirement.kind",
         [](Graph& g) { g.packages[0]->versions[0]->requirements[0]->kind = Kind::suggests; }},
        {"requirement.alternatives",
         [](Graph& g) {
             auto& list = g.packages[0]->versions[0]->requirements[0]->alternatives;
             std::swap(list[0], list[1]);
         }},
        {"alternative.target", [](Graph& g) { first_alternative(g).target = g.packages[2]; }},
        {"alternative.relation", [](Graph& g) { first_alternative(g).relation = Relation::later; }},
        {"alternative.version", [](Graph& g) { first_alternative(g).version = "3"; }},
        {"alternative.architecture", [](Graph& g) { first_alternative(g).architecture = "any"; }},
        {"provision.package",
         [](Graph& g) { g.packages[1]->versions[0]->provisions[0].package = g.packages[0]; }},
        {"provision.version",
         [](Graph& g) { g.packages[1]->versions[0]->provisions[0].version = "8"; }},
        {"maintainer.name", [](Graph& g) { g.maintainers[0]->name = "Two"; }},
        {"maintainer.email", [](Graph& g) { g.maintainers[0]->email = ""; }},
        {"maintainer.versions", [](Graph& g) { g.maintainers[0]->versions.pop_back(); }},
        {"graph.packages", [](Graph& g) { std::swap(g.packages[1], g.packages[2]); }},
        {"graph.maintainers", [](Graph& g) { g.maintainers.clear(); }},
    };
    const std::uint64_t original = sum_of(*Built(kText).graph);
    for (const auto& [field, change] : changes) {
        const Built built(kText);
        change(*built.graph);
        EXPECT_NE(sum_of(*built.graph), original) << field;
    }
}

TEST(Checksum, differs_when_sharing_is_lost) {
    const Built built(kText);
    const std::uint64_t original = sum_of(*built.graph);
    Version* version = built.package("bb")->versions[0];
    Maintainer copy(*version->maintainer);  // equal in every field, but not the same object
    version->maintainer = &copy;
    EXPECT_NE(sum_of(*built.graph), original);
}

TEST(Checksum, differs_when_two_equal_objects_become_one) {
    const Built built(kText);
    const std::uint64_t original = sum_of(*built.graph);
    List<Requirement*>& requirements = built.package("bb")->versions[0]->requirements;
    requirements[1] = requirements[0];  // "aa" twice
    EXPECT_NE(sum_of(*built.graph), original);
}

TEST(Checksum, differs_when_a_circle_is_opened) {
    const Built built(kText);
    const std::uint64_t original = sum_of(*built.graph);
    Requirement* back = built.package("bb")->versions[0]->requirements[0];
    Package other(*built.package("aa"));
    back->alternatives[0].target = &other;
    EXPECT_NE(sum_of(*built.graph), original);
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
