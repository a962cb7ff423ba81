// The table of keys: its texts, and the way of values from TOML and back.
#include <gtest/gtest.h>

#include <set>

#include "config/config_values.hpp"
#include "core_config_values.hpp"

namespace verbatim {
namespace {

using test::print_all;
using namespace std::chrono_literals;

TEST(ConfigTable, every_key_has_a_section_a_help_and_what_is_allowed) {
    std::set<std::string> names;
    for (const ConfigKey& key : config_keys()) {
        EXPECT_NO_THROW((void)test::section_of(key));
        EXPECT_TRUE(names.insert(key.section + '.' + key.name).second) << key.name;
        EXPECT_FALSE(key.allowed.empty()) << key.name;
        EXPECT_TRUE(key.help.ends_with('.')) << key.help;
    }
    for (const ConfigSection& section : config_sections())
        EXPECT_TRUE(section.help.ends_with('.')) << section.help;
}

TEST(ConfigTable, the_default_of_each_key_is_what_a_file_without_it_means) {
    for (const ConfigKey& key : config_keys()) {
        if (key.default_value.empty()) continue;
        const std::string with = test::file_with(key, key.default_value);
        const std::string without = with.substr(0, with.rfind('\n', with.size() - 2) + 1);
        EXPECT_EQ(print_all(Config::from_text(with)), print_all(Config::from_text(without)))
            << with;
    }
}

TEST(ConfigTable, values_are_written_as_they_are_read) {
    const auto keys = config_keys();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::string value = test::other_value(keys[i]);
        const TracedConfig traced = TracedConfig::from_text(test::file_with(keys[i], value));
        EXPECT_EQ(traced.value(i), value) << keys[i].name;
    }
}

TEST(ConfigTable, texts_are_written_with_their_escapes) {
    const std::string odd = "a \"b\" \\ \n \t c\x01";
    Config config;
    config.device.name = odd;
    const auto keys = config_keys();
    for (std::size_t i = 0; i < keys.size(); ++i)
        if (keys[i].section == "device" && keys[i].name == "name") {
            const std::string value = TracedConfig{config, "", {}}.value(i);
            EXPECT_EQ(Config::from_text("[device]\nname = " + value).device.name, odd) << value;
        }
}

TEST(ConfigTable, quantities_are_written_in_the_largest_unit_that_fits) {
    EXPECT_EQ(size_text(0, "'"), "0");
    EXPECT_EQ(size_text(1000, "'"), "1000");
    EXPECT_EQ(size_text(1024, "'"), "'1K'");
    EXPECT_EQ(size_text(3LL << 40, "'"), "'3T'");
    EXPECT_EQ(duration_text(0us, 1us), "0us");
    EXPECT_EQ(duration_text(0ms, 1ms), "0ms");
    EXPECT_EQ(duration_text(1500us, 1us), "1500us");
    EXPECT_EQ(duration_text(5000ms, 1ms), "5s");
    EXPECT_EQ(allowed_durations(1ms, 1000s, 1ms),
              R"(a duration from "1ms" to "1000s", whole milliseconds)");
    EXPECT_EQ(allowed_words({"a", "b", "c"}), R"("a", "b" or "c")");
    EXPECT_EQ(allowed_sizes({4096, 64 << 20, Shape::power_of_two}),
              "a size from 4K to 64M, a power of two");
}

TEST(ConfigTable, lists_are_counted_and_each_of_their_values_has_its_line) {
    const TracedConfig traced = TracedConfig::from_text(
        "[[poller]]\ncore = 1\n[[poller]]\nname = 'b'\ncore = 2\n[ring]\nbytes = '4K'\n", "x.toml");
    const auto keys = config_keys();
    for (const ConfigSection& section : config_sections())
        EXPECT_EQ(traced.count(section), section.name == "poller"        ? 2u
                                         : section.name == "named_arena" ? 0u
                                                                         : 1u);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (keys[i].section == "poller" && keys[i].name == "core") {
            EXPECT_EQ(traced.value(i, 0) + traced.value(i, 1), "12");
            EXPECT_EQ(traced.place(i, 0), "x.toml:2");
            EXPECT_EQ(traced.place(i, 1), "x.toml:5");
        } else if (keys[i].section == "ring") {
            EXPECT_EQ(traced.place(i), keys[i].name == "bytes" ? "x.toml:7" : "");
        }
    }
}

}  // namespace
}  // namespace verbatim
