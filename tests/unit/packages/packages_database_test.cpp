// The meaning of the fields.
#include "packages/database.hpp"

#include <fstream>

#include <gmock/gmock.h>

#include "packages_test_support.hpp"

namespace packages {
namespace {

using ::testing::HasSubstr;

Database parse(std::string_view text) { return parse_database(std::string(text), "f"); }
std::string message(std::string_view text) {
    return refusal([&] { parse(text); });
}

TEST(Database, reads_every_field_that_has_a_type) {
    const Database database = parse(
        "Package: aa\nStatus: install ok installed\nPriority: required\nSection: admin\n"
        "Installed-Size: 686\nMaintainer: Some <Body> <some@body.org>\nArchitecture: amd64\n"
        "Multi-Arch: foreign\nEssential: yes\nVersion: 1:2-3\nProvides: bb (= 4), cc\n"
        "Depends: dd | ee\nPre-Depends: ff\nHomepage: https://x\nSource: ss (2)\nTag: "
        "t\nDescription: short\n long\n .\n "
        "end\n");
    ASSERT_EQ(database.records.size(), 1u);
    const Record& record = database.records[0];
    EXPECT_EQ(record.name, "aa");
    EXPECT_EQ(record.status, "install ok installed");
    EXPECT_EQ(record.priority, "required");
    EXPECT_EQ(record.section, "admin");
    EXPECT_EQ(record.installed_kib, 686u);
    EXPECT_EQ(record.maintainer_name, "Some <Body>");
    EXPECT_EQ(record.maintainer_email, "some@body.org");
    EXPECT_EQ(record.architecture, "amd64");
    EXPECT_EQ(record.multi_arch, MultiArch::foreign);
    EXPECT_TRUE(record.essential);
    EXPECT_EQ(record.version, "1:2-3");
    EXPECT_EQ(record.summary, "short");
    EXPECT_EQ(record.description, " long\n .\n end");
    ASSERT_EQ(record.provides.size(), 2u);
    EXPECT_EQ(record.provides[0].version, "4");
    ASSERT_EQ(record.relations.size(), 2u);
    EXPECT_EQ(record.relations[1].first, Kind::pre_depends);
    ASSERT_EQ(record.other_fields.size(), 1u);
    EXPECT_EQ(record.other_fields[0].name, "Tag");
    EXPECT_EQ(record.homepage, "https://x");
    EXPECT_EQ(record.source, "ss (2)");
}

TEST(Database, fields_may_be_missing_empty_or_in_another_case) {
    const Database database = parse("package: aa\nVERSION: 1\nDepends:\nMaintainer: nobody\n");
    const Record& record = database.records.at(0);
    EXPECT_EQ(record.installed_kib, 0u);
    EXPECT_FALSE(record.essential);
    EXPECT_EQ(record.multi_arch, MultiArch::no);
    EXPECT_EQ(record.maintainer_name, "nobody");
    EXPECT_EQ(record.maintainer_email, "");
    EXPECT_EQ(record.description, "");
    EXPECT_TRUE(record.relations.at(0).second.empty());
}

TEST(Database, a_package_that_is_not_installed_needs_no_version) {
    const Database database = parse(
        "Package: aa\nVersion: 1\n\nPackage: bb\nStatus: purge ok not-installed\n\n"
        "Package: cc\nStatus: deinstall ok config-files\nVersion: 2\n");
    EXPECT_EQ(database.records.size(), 3u);
    EXPECT_EQ(database.package_count, 2u);
}

TEST(Database, counts_a_name_once_whatever_its_versions) {
    const Database database = parse(
        "Package: aa\nVersion: 1\nArchitecture: amd64\n\nPackage: aa\nVersion: 1\nArchitecture: "
        "i386\n");
    EXPECT_EQ(database.records.size(), 2u);
    EXPECT_EQ(database.package_count, 1u);
}

TEST(Database, refuses_stanzas_without_a_name_or_a_version) {
    EXPECT_THAT(message("Package: aa\nVersion: 1\n\nVersion: 1\n"),
                HasSubstr("f, line 4: the stanza has no Package field"));
    EXPECT_THAT(message("Package: a b\nVersion: 1\n"), HasSubstr("\"a b\" is not a package name"));
    EXPECT_THAT(message("Package: aa\n"), HasSubstr("f, line 1: package aa has no Version field"));
    EXPECT_THAT(message("Package: aa\nStatus: install ok installed\n"), HasSubstr("no Version"));
    EXPECT_THAT(message("Package: aa\nStatus: installed\n"), HasSubstr("no Version"));
}

TEST(Database, refuses_wrong_values_at_their_line) {
    const auto with = [](std::string field) {
        return message("Package: aa\nVersion: 1\n" + field);
    };
    EXPECT_THAT(with("Installed-Size: 12 kB\n"), HasSubstr("f, line 3: \"12 kB\" is not a number"));
    EXPECT_THAT(with("Installed-Size: -1\n"), HasSubstr("line 3"));
    EXPECT_THAT(with("Installed-Size: 99999999999999999999\n"), HasSubstr("line 3"));
    EXPECT_THAT(with("Installed-Size:\n"), HasSubstr("line 3"));
    EXPECT_THAT(with("Multi-Arch: maybe\n"), HasSubstr("line 3: \"maybe\" is none of"));
    EXPECT_THAT(with("Essential: 1\n"), HasSubstr("line 3: \"1\" is neither yes nor no"));
    EXPECT_THAT(with("Depends: bb (\n"), HasSubstr("line 3: expected <<"));
    EXPECT_THAT(with("Conflicts: bb | cc\n"),
                HasSubstr("line 3: this field takes no alternatives"));
    EXPECT_THAT(with("Provides: bb | cc\n"), HasSubstr("line 3: this field takes no alternatives"));
    EXPECT_THAT(with("Provides: bb (>= 1)\n"), HasSubstr("line 3: only \"=\""));
}

TEST(Database, refuses_input_without_packages) {
    EXPECT_THAT(message(""), HasSubstr("f: holds no packages"));
    EXPECT_THAT(message("\n \n\n"), HasSubstr("f: holds no packages"));
    EXPECT_THAT(message("Package: aa\nStatus: purge ok not-installed\n"),
                HasSubstr("f: holds no packages"));
}

TEST(Database, reads_the_database_of_this_machine) {
    const std::string path = "/var/lib/dpkg/status";
    std::ifstream file(path);
    if (!file) GTEST_SKIP() << "runs on Debian systems only: no " << path;
    std::size_t stanzas = 0;
    for (std::string line; std::getline(file, line);)
        stanzas += line.starts_with("Package: ") ? 1u : 0u;
    EXPECT_EQ(load_database(path).records.size(), stanzas);
}

}  // namespace
}  // namespace packages
