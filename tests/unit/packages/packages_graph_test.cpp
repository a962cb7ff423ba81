// Records to graph, and its growth by repetition.
#include "packages/build_graph.hpp"

#include <gmock/gmock.h>

#include <array>
#include <set>

#include "packages_test_support.hpp"

namespace packages {
namespace {

using ::testing::ElementsAre;

// aa and bb need each other, aa also needs virtual "mail", which cc provides, or "gone", which
// nobody does.
constexpr std::string_view kSmall =
    "Package: aa\nVersion: 1\nMaintainer: One <one@x>\nDepends: bb (>= 2), mail | gone:any\n\n"
    "Package: bb\nVersion: 2\nMaintainer: One <one@x>\nDepends: aa\nBreaks: cc (<< 3)\n\n"
    "Package: cc\nVersion: 3\nMaintainer: Two\nProvides: mail (= 9)\nTag: x::y\n";

std::vector<std::string> names(const Graph& graph) {
    std::vector<std::string> result;
    for (const Package& package : graph.packages) result.emplace_back(package.name);
    return result;
}

TEST(BuildGraph, makes_packages_in_order_of_first_mention) {
    const Built built(kSmall);
    EXPECT_THAT(names(*built.graph), ElementsAre("aa", "bb", "mail", "gone", "cc"));
}

TEST(BuildGraph, links_dependencies_both_ways) {
    const Built built(kSmall);
    const List<Dependency>& needs = built.package("aa")->versions.at(0).dependencies;
    ASSERT_EQ(needs.size(), 3u);
    EXPECT_EQ(needs[0].target, built.package("bb"));
    EXPECT_EQ(needs[0].kind, Kind::depends);
    EXPECT_EQ(needs[0].relation, Relation::later_equal);
    EXPECT_EQ(needs[0].version, "2");
    EXPECT_EQ(needs[0].architecture, nullptr);
    EXPECT_THAT(built.package("bb")->required_by, ElementsAre(built.package("aa")));
    EXPECT_THAT(built.package("cc")->required_by, ElementsAre(built.package("bb")));
    EXPECT_THAT(built.package("gone")->required_by, ElementsAre(built.package("aa")));
}

TEST(BuildGraph, marks_alternatives) {
    const Built built(kSmall);
    const List<Dependency>& needs = built.package("aa")->versions.at(0).dependencies;
    ASSERT_EQ(needs.size(), 3u);
    EXPECT_FALSE(needs[0].or_next);
    EXPECT_TRUE(needs[1].or_next);
    EXPECT_FALSE(needs[2].or_next);
    EXPECT_EQ(needs[1].target, built.package("mail"));
    EXPECT_EQ(needs[2].target, built.package("gone"));
    ASSERT_NE(needs[2].architecture, nullptr);
    EXPECT_EQ(needs[2].architecture->name, "any");
    EXPECT_THAT(built->architectures, ElementsAre(needs[2].architecture));
}

TEST(BuildGraph, links_virtual_packages_to_their_providers) {
    const Built built(kSmall);
    const Package* mail = built.package("mail");
    const Package* provider = built.package("cc");
    EXPECT_TRUE(mail->versions.empty());
    EXPECT_THAT(mail->provided_by, ElementsAre(provider));
    const List<Provision>& provisions = provider->versions.at(0).provisions;
    ASSERT_EQ(provisions.size(), 1u);
    EXPECT_EQ(provisions[0].package, mail);
    EXPECT_EQ(provisions[0].version, "9");
}

TEST(BuildGraph, shares_maintainers) {
    const Built built(kSmall);
    ASSERT_EQ(built->maintainers.size(), 2u);
    const Maintainer* one = built.package("aa")->versions[0].maintainer;
    EXPECT_EQ(built.package("bb")->versions[0].maintainer, one);
    EXPECT_THAT(one->packages, ElementsAre(built.package("aa"), built.package("bb")));
    EXPECT_EQ(one->email, "one@x");
}

TEST(BuildGraph, gives_one_package_several_versions) {
    const Built built("Package: aa\nVersion: 1\n\nPackage: aa\nVersion: 2\n");
    ASSERT_EQ(built->packages.size(), 1u);
    const Package& package = built->packages[0];
    ASSERT_EQ(package.versions.size(), 2u);
    EXPECT_EQ(package.versions[1].number, "2");
    EXPECT_EQ(package.versions[0].maintainer, nullptr);
}

// Neighbours in the walk are neighbours in memory: this is what makes sending it cheap.
TEST(BuildGraph, leaves_no_abandoned_memory) {
    std::array<std::byte, 1 << 16> block{};
    std::pmr::monotonic_buffer_resource exact(block.data(), block.size(),
                                              std::pmr::null_memory_resource());
    const Graph* graph = build_graph(parse_database(std::string(kSmall), "test"), exact, 6);
    for (const Package& package : graph->packages) {
        EXPECT_EQ(package.versions.capacity(), package.versions.size());
        EXPECT_EQ(package.required_by.capacity(), package.required_by.size());
        EXPECT_EQ(package.provided_by.capacity(), package.provided_by.size());
    }
    EXPECT_EQ(graph->packages.capacity(), graph->packages.size());
    EXPECT_EQ(graph->maintainers[0]->packages.capacity(), graph->maintainers[0]->packages.size());
}

TEST(BuildGraph, keeps_other_fields_as_written) {
    const Built built(kSmall);
    const List<Field>& fields = built.package("cc")->versions[0].other_fields;
    ASSERT_EQ(fields.size(), 1u);
    EXPECT_EQ(fields[0].name, "Tag");
    EXPECT_EQ(fields[0].value, "x::y");
}

TEST(BuildGraph, allocates_from_the_given_memory_only) {
    const Database database = parse_database(std::string(kSmall), "test");
    std::pmr::memory_resource* before =
        std::pmr::set_default_resource(std::pmr::null_memory_resource());
    std::pmr::monotonic_buffer_resource memory(std::pmr::new_delete_resource());
    EXPECT_NO_THROW(build_graph(database, memory, 10));
    std::pmr::set_default_resource(before);
    EXPECT_THROW(build_graph(database, *std::pmr::null_memory_resource()), std::bad_alloc);
}

TEST(Replicate, grows_to_at_least_the_wanted_number) {
    EXPECT_EQ(totals(*Built(kSmall, 0).graph).packages, 3u);
    EXPECT_EQ(totals(*Built(kSmall, 3).graph).packages, 3u);
    EXPECT_EQ(totals(*Built(kSmall, 4).graph).packages, 6u);
    EXPECT_EQ(totals(*Built(kSmall, 1000).graph).packages, 1002u);
}

TEST(Replicate, renames_every_name_and_leaves_no_name_twice) {
    const Built built(kSmall, 9);
    const auto all = names(*built.graph);
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
    EXPECT_THAT(std::vector(all.begin() + 10, all.end()),
                ElementsAre("aa~3", "bb~3", "mail~3", "gone~3", "cc~3"));
}

TEST(Replicate, keeps_relations_inside_their_repetition) {
    const Built built(kSmall, 12);
    const auto set_of = [](const Package* package) {
        const std::size_t mark = package->name.find('~');
        return mark == Text::npos ? std::string() : std::string(package->name.substr(mark));
    };
    std::size_t links = 0;
    for (const Package& package : built->packages) {
        for (const Package* dependent : package.required_by) {
            EXPECT_EQ(set_of(dependent), set_of(&package));
            ++links;
        }
        for (const Package* provider : package.provided_by)
            EXPECT_EQ(set_of(provider), set_of(&package));
        for (const Version& version : package.versions)
            for (const Dependency& dependency : version.dependencies)
                EXPECT_EQ(set_of(dependency.target), set_of(&package));
    }
    EXPECT_EQ(links, 4u * 5u);
}

TEST(Replicate, shares_maintainers_and_multiplies_everything_else) {
    const Totals once = totals(*Built(kSmall).graph);
    const Totals many = totals(*Built(kSmall, 15).graph);
    EXPECT_EQ(many.maintainers, once.maintainers);
    EXPECT_EQ(many.versions, 5 * once.versions);
    EXPECT_EQ(many.other_names, 5 * once.other_names);
    EXPECT_EQ(many.edges, 5 * once.edges);
    EXPECT_EQ(many.reverse_edges, 5 * once.reverse_edges);
    EXPECT_EQ(many.longest_chain, once.longest_chain);
    EXPECT_NE(many.checksum, once.checksum);
}

}  // namespace
}  // namespace packages
