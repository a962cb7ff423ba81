// The syntax of relationship fields.
#include "packages/relations.hpp"

#include <gmock/gmock.h>

#include "packages_test_support.hpp"

namespace packages {
namespace {

using ::testing::HasSubstr;

std::vector<Clause> clauses_of(std::string_view text) { return parse_relations(text, {"f", 7}); }

TEST(Relations, splits_clauses_and_alternatives) {
    const auto clauses = clauses_of("aa, bb | cc|dd , ee");
    ASSERT_EQ(clauses.size(), 3u);
    ASSERT_EQ(clauses[1].size(), 3u);
    EXPECT_EQ(clauses[0][0].package, "aa");
    EXPECT_EQ(clauses[1][2].package, "dd");
    EXPECT_EQ(clauses[2][0].package, "ee");
}

TEST(Relations, reads_every_operator_also_the_obsolete_ones) {
    const auto relation = [](std::string_view text) {
        return clauses_of(text).at(0).at(0).relation;
    };
    EXPECT_EQ(relation("aa"), Relation::any);
    EXPECT_EQ(relation("aa (<< 1)"), Relation::earlier);
    EXPECT_EQ(relation("aa (<= 1)"), Relation::earlier_equal);
    EXPECT_EQ(relation("aa (= 1)"), Relation::equal);
    EXPECT_EQ(relation("aa (>= 1)"), Relation::later_equal);
    EXPECT_EQ(relation("aa (>> 1)"), Relation::later);
    EXPECT_EQ(relation("aa (< 1)"), Relation::earlier_equal);
    EXPECT_EQ(relation("aa (> 1)"), Relation::later_equal);
}

TEST(Relations, reads_qualifiers_and_versions_with_or_without_blanks) {
    const auto clauses = clauses_of("lib++1.2-x:any(>=1:2.3~rc1+b2-4),\n  zz ( = 1 )");
    ASSERT_EQ(clauses.size(), 2u);
    const WrittenAlternative& first = clauses[0][0];
    EXPECT_EQ(first.package, "lib++1.2-x");
    EXPECT_EQ(first.architecture, "any");
    EXPECT_EQ(first.relation, Relation::later_equal);
    EXPECT_EQ(first.version, "1:2.3~rc1+b2-4");
    EXPECT_EQ(clauses[1][0].version, "1");
}

TEST(Relations, an_empty_field_has_no_clauses) {
    EXPECT_TRUE(clauses_of("").empty());
    EXPECT_TRUE(clauses_of(" \n ").empty());
}

TEST(Relations, refuses_what_dpkg_refuses) {
    const auto message = [](std::string_view text) { return refusal([&] { clauses_of(text); }); };
    EXPECT_THAT(message("aa, , bb"),
                HasSubstr("f, line 7: expected a package name before \", bb\""));
    EXPECT_THAT(message("aa,"), HasSubstr("expected a package name at the end of the field"));
    EXPECT_THAT(message("aa |"), HasSubstr("expected a package name"));
    EXPECT_THAT(message("a"), HasSubstr("expected a package name"));
    EXPECT_THAT(message("-aa"), HasSubstr("expected a package name"));
    EXPECT_THAT(message("aa bb"), HasSubstr("unexpected text before \"bb\""));
    EXPECT_THAT(message("aa [amd64]"), HasSubstr("unexpected text before \"[amd64]\""));
    EXPECT_THAT(message("aa (1)"), HasSubstr("expected <<, <=, =, >= or >> before \"1)\""));
    EXPECT_THAT(message("aa (=> 1)"), HasSubstr("expected <<, <=, =, >= or >>"));
    EXPECT_THAT(message("aa (>= )"), HasSubstr("expected a version"));
    EXPECT_THAT(message("aa (>= 1"), HasSubstr("expected ')' at the end of the field"));
    EXPECT_THAT(message("aa: (>= 1)"), HasSubstr("expected an architecture"));
}

}  // namespace
}  // namespace packages
