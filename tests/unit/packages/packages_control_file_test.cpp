// The syntax of control files.
#include "packages/control_file.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "packages_test_support.hpp"

namespace packages {
namespace {

using ::testing::HasSubstr;

TEST(ControlFile, splits_stanzas_at_blank_lines) {
    const auto stanzas = parse_control_file("\n\nA: 1\nB: 2\n\n \t\nA: 3\n\n", "f");
    ASSERT_EQ(stanzas.size(), 2u);
    EXPECT_EQ(stanzas[0].line, 3u);
    ASSERT_EQ(stanzas[0].fields.size(), 2u);
    EXPECT_EQ(stanzas[0].fields[1].name, "B");
    EXPECT_EQ(stanzas[0].fields[1].value, "2");
    EXPECT_EQ(stanzas[0].fields[1].line, 4u);
    EXPECT_EQ(stanzas[1].fields[0].value, "3");
}

TEST(ControlFile, joins_continuation_lines) {
    const auto stanzas = parse_control_file("D: first\n second\n .\n\tthird  \nE:\n only\n", "f");
    ASSERT_EQ(stanzas.size(), 1u);
    EXPECT_EQ(stanzas[0].fields[0].value, "first\n second\n .\n\tthird");
    EXPECT_EQ(stanzas[0].fields[1].value, "only");
}

TEST(ControlFile, takes_a_file_without_a_last_newline_and_with_carriage_returns) {
    const auto stanzas = parse_control_file("A: 1\r\nB: 2\r\n\r\nA: 3", "f");
    ASSERT_EQ(stanzas.size(), 2u);
    EXPECT_EQ(stanzas[0].fields[0].value, "1");
    EXPECT_EQ(stanzas[1].fields[0].value, "3");
}

TEST(ControlFile, keeps_colons_and_emptiness_in_values) {
    const auto stanzas = parse_control_file("A: b:c: d\nE:\n", "f");
    EXPECT_EQ(stanzas[0].fields[0].value, "b:c: d");
    EXPECT_EQ(stanzas[0].fields[1].value, "");
}

TEST(ControlFile, finds_fields_in_any_case) {
    const auto stanzas = parse_control_file("Multi-Arch: same\n", "f");
    ASSERT_NE(stanzas[0].find("multi-arch"), nullptr);
    EXPECT_EQ(stanzas[0].find("MULTI-ARCH")->value, "same");
    EXPECT_EQ(stanzas[0].find("Multi"), nullptr);
}

TEST(ControlFile, refuses_malformed_lines_and_names_them) {
    const auto message = [](std::string_view text) {
        return refusal([&] { parse_control_file(text, "some/file"); });
    };
    EXPECT_THAT(message("A: 1\n\nno field here\n"),
                HasSubstr("some/file, line 3: expected \"Name: value\", found \"no field here\""));
    EXPECT_THAT(message("A: 1\n\n continued\n"), HasSubstr("line 3: a continuation line without"));
    EXPECT_THAT(message(": 1\n"), HasSubstr("line 1: expected \"Name: value\""));
    EXPECT_THAT(message("two words: 1\n"), HasSubstr("line 1: expected \"Name: value\""));
    EXPECT_THAT(message("# comment: 1\n"), HasSubstr("line 1: expected \"Name: value\""));
    EXPECT_THAT(message("A: 1\nb: 2\na: 3\n"), HasSubstr("line 3: field \"a\" stands twice"));
}

TEST(ControlFile, shows_no_control_characters_of_garbage) {
    const std::string message =
        refusal([] { parse_control_file("\x1b[2J\x07" + std::string(200, 'x'), "f"); });
    EXPECT_THAT(message, HasSubstr("\"?[2J?xxx"));
    EXPECT_LT(message.size(), 120u);
}

class ReadFile : public ::testing::Test {
  protected:
    std::string write(std::string_view content) {
        std::ofstream(path_, std::ios::binary) << content;
        return path_;
    }
    void TearDown() override { std::filesystem::remove(path_); }

    std::string path_ = ::testing::TempDir() + "verbatim_read_file_test";
};

TEST_F(ReadFile, returns_the_bytes) { EXPECT_EQ(read_file(write("A: 1\n")), "A: 1\n"); }

TEST_F(ReadFile, refuses_what_is_no_text_file) {
    EXPECT_THAT(refusal([] { read_file("/nonexistent/status"); }),
                HasSubstr("/nonexistent/status: cannot be opened: No such file"));
    EXPECT_THAT(refusal([] { read_file("/tmp"); }), HasSubstr("/tmp: is a directory"));
    const std::string compressed = write(std::string_view("\x28\xb5\x2f\xfd\0\0", 6));
    EXPECT_THAT(refusal([&] { read_file(compressed); }),
                HasSubstr("is not text; if it is compressed"));
}

}  // namespace
}  // namespace packages
