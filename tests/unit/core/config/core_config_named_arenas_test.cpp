// [[named_arena]] sections: the arenas of a context, and mistakes.
#include <gtest/gtest.h>

#include "core_config_values.hpp"

namespace verbatim {
namespace {

std::string complaint(std::string_view text) {
    return test::config_complaint([&] { return Config::from_text(text, "x.toml"); });
}

TEST(ConfigNamedArenas, have_a_name_each_and_the_keys_of_an_arena) {
    const Config config = Config::from_text(
        "[arena]\npages = '4K'\n"
        "[[named_arena]]\nname = 'first'\nmax_bytes = '1G'\nlock_memory = true\n"
        "[[named_arena]]\nname = 'second'\nsegment_bytes = '64M'\nnuma_node = 0\n");
    ASSERT_EQ(config.named_arenas.size(), 2u);
    const ArenaOptions &first = config.named_arenas[0], &second = config.named_arenas[1];
    EXPECT_EQ(first.name, "first");
    EXPECT_EQ(first.max_bytes, std::size_t{1} << 30);
    EXPECT_TRUE(first.lock_memory);
    EXPECT_EQ(first.segment_bytes, ArenaOptions{}.segment_bytes);
    EXPECT_EQ(first.pages, PageChoice::automatic) << "that of [arena] is its own";
    EXPECT_EQ(second.name, "second");
    EXPECT_EQ(second.segment_bytes, std::size_t{64} << 20);
    EXPECT_EQ(second.numa_node, 0);
    EXPECT_EQ(second.max_bytes, ArenaOptions{}.max_bytes);
}

TEST(ConfigNamedArenas, mistakes_are_said_with_their_line) {
    const struct {
        const char *text, *place, *cause;
    } cases[] = {
        {"\n[[named_arena]]\npages = '4K'\n", "x.toml:2", "[[named_arena]] has no name"},
        {"[[named_arena]]\nname = ''\n", "x.toml:2", "it must be a text that is not empty"},
        {"[[named_arena]]\nname = 3\n", "x.toml:2", "it must be a text that is not empty"},
        {"[[named_arena]]\nname = 'a'\n[[named_arena]]\nname = 'b'\n[[named_arena]]\nname = 'a'\n",
         "x.toml:6", "the name \"a\" is taken, at x.toml:2"},
        {"[[named_arena]]\nname = 'a'\npagse = '4K'\n", "x.toml:3", "did you mean pages?"},
        {"[named_arena]\nname = 'a'\n", "x.toml:1", "write [[named_arena]]"},
        {"[[named_arenas]]\nname = 'a'\n", "x.toml:1", "did you mean named_arena?"},
        {"[[named_arena]]\nname = 'a'\n[[named_arena]]\nname = 'b'\nmax_bytes = '1M'\n", "x.toml:5",
         "[named_arena] segment_bytes (33554432) exceeds max_bytes (1048576)"},
        {"[[named_arena]]\nname = 'a'\ninitial_bytes = '17G'\n", "x.toml:3", "exceeds max_bytes"},
        {"[[named_arena]]\nname = 'a'\npages = '1G'\n", "x.toml:3", "is less than one page"},
    };
    for (const auto& one : cases) {
        const std::string said = complaint(one.text);
        for (const char* part : {one.place, one.cause})
            EXPECT_NE(said.find(part), std::string::npos) << one.text << " -> " << said;
    }
}

}  // namespace
}  // namespace verbatim
