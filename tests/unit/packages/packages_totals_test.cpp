// Totals against graphs counted by hand.
#include "packages/totals.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "packages_test_support.hpp"
#include "sanitized.hpp"

namespace packages {
namespace {

// "aa>bb,cc;bb>cc;cc" : each package with what it depends on.
std::string database_of(std::string_view shape) {
    std::string text;
    while (!shape.empty()) {
        const std::string_view item = shape.substr(0, shape.find(';'));
        shape.remove_prefix(std::min(item.size() + 1, shape.size()));
        const std::size_t arrow = item.find('>');
        text += fmt::format("Package: {}\nVersion: 1\n", item.substr(0, arrow));
        if (arrow != std::string_view::npos)
            text += fmt::format("Depends: {}\n", item.substr(arrow + 1));
        text += '\n';
    }
    return text;
}

std::uint64_t chain(std::string_view shape) {
    return longest_chain(*Built(database_of(shape)).graph);
}

TEST(Totals, are_right_for_a_graph_counted_by_hand) {
    // Resolved: aa>bb, aa>mail (provided), bb>aa, bb breaks cc; not resolved: aa>gone.
    const Built built(
        "Package: aa\nVersion: 1\nMaintainer: One\nDepends: bb (>= 2), mail | gone\n\n"
        "Package: bb\nVersion: 2\nMaintainer: One\nDepends: aa\nBreaks: cc (<< 3)\n\n"
        "Package: cc\nVersion: 3\nMaintainer: Two\nProvides: mail\n\n"
        "Package: cc\nVersion: 4\nMaintainer: Two\n");
    const Totals result = totals(*built.graph);
    EXPECT_EQ(result.packages, 3u);
    EXPECT_EQ(result.other_names, 2u);
    EXPECT_EQ(result.versions, 4u);
    EXPECT_EQ(result.maintainers, 2u);
    EXPECT_EQ(result.edges, 4u);
    EXPECT_EQ(result.reverse_edges, 5u);
    EXPECT_EQ(result.longest_chain, 2u);  // {aa, bb} then cc, through mail
    // Graph 1, packages 5, versions 4, maintainers 2, dependencies 5, provision 1.
    EXPECT_EQ(result.objects, 18u);
}

TEST(Totals, print_one_name_and_value_per_line) {
    const Totals some{.packages = 1,
                      .other_names = 2,
                      .versions = 3,
                      .maintainers = 4,
                      .edges = 5,
                      .reverse_edges = 6,
                      .longest_chain = 7,
                      .objects = 8,
                      .checksum = 0xab};
    EXPECT_EQ(to_text(some),
              "packages=1\nother_names=2\nversions=3\nmaintainers=4\nedges=5\nreverse_edges=6\n"
              "longest_chain=7\nobjects=8\nchecksum=00000000000000ab\n");
}

TEST(LongestChain, counts_the_packages_on_the_longest_path) {
    EXPECT_EQ(chain("aa"), 1u);
    EXPECT_EQ(chain("aa;bb"), 1u);
    EXPECT_EQ(chain("aa>bb;bb>cc;cc"), 3u);
    EXPECT_EQ(chain("aa>bb,cc;bb>dd;cc>bb;dd"), 4u);  // aa cc bb dd
    EXPECT_EQ(chain("dd;cc>dd;bb>dd;aa>bb,cc"), 3u);
}

TEST(LongestChain, counts_a_circle_as_one) {
    EXPECT_EQ(chain("aa>aa"), 1u);
    EXPECT_EQ(chain("aa>bb;bb>aa"), 1u);
    EXPECT_EQ(chain("aa>bb;bb>cc;cc>bb,dd;dd"), 3u);
    // Two circles joined by a bridge, entered and left at different packages.
    EXPECT_EQ(chain("aa>bb;bb>cc;cc>aa,dd;dd>ee;ee>ff;ff>dd,gg;gg"), 3u);
    // A cross edge into a circle that is finished must not join the circles.
    EXPECT_EQ(chain("aa>bb,cc;bb>bb;cc>bb,dd;dd>cc"), 3u);
}

TEST(LongestChain, follows_hard_dependencies_only) {
    const auto of = [](std::string_view field) {
        return longest_chain(
            *Built(
                 fmt::format("Package: aa\nVersion: 1\n{}: bb\n\nPackage: bb\nVersion: 1\n", field))
                 .graph);
    };
    EXPECT_EQ(of("Depends"), 2u);
    EXPECT_EQ(of("Pre-Depends"), 2u);
    EXPECT_EQ(of("Recommends"), 1u);
    EXPECT_EQ(of("Suggests"), 1u);
    EXPECT_EQ(of("Conflicts"), 1u);
    EXPECT_EQ(of("Breaks"), 1u);
}

TEST(LongestChain, passes_over_names_that_nobody_has) {
    EXPECT_EQ(chain("aa>missing"), 1u);
    EXPECT_EQ(chain("aa>missing,bb;bb"), 2u);
}

// A recursive search would overflow the stack here.
TEST(LongestChain, takes_chains_longer_than_any_call_stack) {
    std::string shape;
    constexpr std::size_t kLength = verbatim::test::kSanitized ? 60'000 : 200'000;
    for (std::size_t i = 0; i + 1 < kLength; ++i) shape += fmt::format("p{}>p{};", i, i + 1);
    shape += fmt::format("p{}", kLength - 1);
    const Built line(database_of(shape));
    EXPECT_EQ(longest_chain(*line.graph), kLength);
    EXPECT_EQ(totals(*line.graph).packages, kLength);
    const Built circle(database_of(shape + ">p0"));
    EXPECT_EQ(longest_chain(*circle.graph), 1u);
}

}  // namespace
}  // namespace packages
