// The configuration file: defaults, values, and what it says about mistakes.
#include <verbatim/core/config.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <toml++/toml.h>

#include "core_config_values.hpp"

namespace verbatim {
namespace {

using test::print_all;

const std::string kShipped = VERBATIM_SOURCE_ROOT "/configs/verbatim.toml";

std::string complaint(std::string_view text) {
    return test::config_complaint([&] { return Config::from_text(text, "x.toml"); });
}

std::string read_shipped() {
    std::ifstream file(kShipped);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(Config, shipped_file_holds_exactly_the_defaults) {
    EXPECT_EQ(print_all(Config::from_file(kShipped)), print_all(Config{}));
    EXPECT_EQ(print_all(Config::from_text("")), print_all(Config{}));
}

TEST(Config, shipped_file_shows_every_key) {
    const toml::table table = toml::parse_file(kShipped);
    for (const ConfigKey& key : config_keys()) {
        if (test::section_of(key).is_list)  // of which there are none by default
            EXPECT_NE(read_shipped().find(fmt::format("# {} = ", key.name)), std::string::npos);
        else
            EXPECT_TRUE(table.at_path(fmt::format("{}.{}", key.section, key.name)))
                << key.section << '.' << key.name;
    }
}

// Comments that are commented out stay comments.
TEST(Config, the_shipped_lists_are_read_once_they_are_no_comments) {
    std::string uncommented;
    bool in_list = false;
    std::istringstream lines(read_shipped());
    for (std::string line; std::getline(lines, line);) {
        in_list = line.starts_with("# [[") || (in_list && line.starts_with("# "));
        uncommented += (in_list ? line.substr(2) : line) + '\n';
    }
    Config config = Config::from_text(uncommented, "x.toml");
    ASSERT_EQ(config.named_arenas.size(), 1u);
    ASSERT_EQ(config.pollers.size(), 1u);
    EXPECT_NE(config.faults, "");
    EXPECT_EQ(test::print(config.pollers[0]), test::print(Config::PollerSection{}));
    config.named_arenas[0].name = ArenaOptions{}.name;
    EXPECT_EQ(test::print(config.named_arenas[0]), test::print(ArenaOptions{}));
}

TEST(Config, every_member_has_a_key) {
    std::map<std::string_view, std::size_t> count;
    for (const ConfigKey& key : config_keys()) ++count[key.section];
    EXPECT_EQ(count["device"], boost::pfr::tuple_size_v<Config::DeviceSection>);
    EXPECT_EQ(count["device.softnic"], boost::pfr::tuple_size_v<Config::SoftnicSection>);
    // All but its name, and `is_set_aside`, which is the layers'.
    EXPECT_EQ(count["arena"], boost::pfr::tuple_size_v<ArenaOptions> - 2);
    EXPECT_EQ(count["receive_arena"], boost::pfr::tuple_size_v<ArenaOptions> - 2);
    EXPECT_EQ(count["named_arena"], boost::pfr::tuple_size_v<ArenaOptions> - 1);
    EXPECT_EQ(count["connect"], boost::pfr::tuple_size_v<Config::ConnectSection>);
    EXPECT_EQ(count["ring"], boost::pfr::tuple_size_v<Config::RingSection>);
    EXPECT_EQ(count["lane"], boost::pfr::tuple_size_v<Config::LaneSection>);
    EXPECT_EQ(count["poller"], boost::pfr::tuple_size_v<Config::PollerSection>);
    EXPECT_EQ(count["telemetry"], boost::pfr::tuple_size_v<Config::TelemetrySection>);
    EXPECT_EQ(count["objects"], boost::pfr::tuple_size_v<Config::ObjectsSection>);
    EXPECT_EQ(count["foreign"], boost::pfr::tuple_size_v<RegistrationOptions>);
    // And the list of [[fault]] sections, which are not keys.
    EXPECT_EQ(count.size() + 1, boost::pfr::tuple_size_v<Config>);
}

TEST(Config, every_key_changes_something) {
    std::set<std::string> seen{print_all(Config{})};
    for (const ConfigKey& key : config_keys()) {
        const std::string text = test::file_with(key, test::other_value(key));
        EXPECT_TRUE(seen.insert(print_all(Config::from_text(text))).second) << text;
    }
}

TEST(Config, reads_sizes_and_durations) {
    const Config c = Config::from_text(
        "[arena]\nmax_bytes = '3G'\ninitial_bytes = 4096\n[lane]\nspin = '1ms'\n[connect]\ntimeout "
        "= '2s'\n");
    EXPECT_EQ(c.arena.max_bytes, std::size_t{3} << 30);
    EXPECT_EQ(c.arena.initial_bytes, 4096u);
    EXPECT_EQ(c.lane.spin, std::chrono::milliseconds(1));
    EXPECT_EQ(c.connect.timeout, std::chrono::seconds(2));
}

TEST(Config, names_line_key_and_what_was_probably_meant) {
    const std::string key = complaint("\n[ring]\nbites = '1M'\n");
    EXPECT_NE(key.find("x.toml:3"), std::string::npos) << key;
    EXPECT_NE(key.find("unknown key bites in [ring]"), std::string::npos) << key;
    EXPECT_NE(key.find("did you mean bytes?"), std::string::npos) << key;
    const std::string section = complaint("[recieve_arena]\npages = '4K'\n");
    EXPECT_NE(section.find("did you mean receive_arena?"), std::string::npos) << section;
    const std::string far = complaint("[lane]\nzzzzzzzzzzzz = 1\n");
    EXPECT_NE(far.find("known are: mode, spin, hot, completions"), std::string::npos) << far;
}

TEST(Config, says_what_is_allowed_for_a_bad_value) {
    const char* const bad[] = {
        "[ring]\nbytes = 5000",
        "[ring]\nbytes = '2K'",
        "[ring]\nbytes = '512M'",
        "[ring]\nbytes = true",
        "[ring]\nbytes = '1X'",
        "[ring]\nbytes = ''",
        "[ring]\nbytes = 1.5",
        "[ring]\nbytes = [1]",
        "[ring]\nsend_blocks = '256'",
        "[lane]\nspin = 20",
        "[lane]\nspin = '20'",
        "[lane]\nspin = '1500ns'",
        "[lane]\nspin = '-5us'",
        "[lane]\nspin = '2s'",
        "[device]\nkind = 'ib'",
        "[device]\nport = 0",
        "[device]\nsame_user_only = 1",
        "[device.softnic]\nport = 'sctp'",
        "[device.softnic]\nport = 'dpdk'",
        "[arena]\npages = '3M'",
        "[arena]\nmax_bytes = '9223372036854775807T'",
        "[connect]\ntimeout = '0ms'",
        "[arena]\nmax_bytes = -4096",
    };
    for (const char* text : bad) {
        const std::string said = complaint(text);
        EXPECT_NE(said.find("x.toml:2"), std::string::npos) << text << " -> " << said;
        EXPECT_NE(said.find("it must be"), std::string::npos) << text << " -> " << said;
    }
}

TEST(Config, refuses_values_that_contradict_each_other) {
    EXPECT_NE(
        complaint("[arena]\nmax_bytes = '1M'").find("segment_bytes (33554432) exceeds max_bytes"),
        std::string::npos);
    EXPECT_NE(complaint("[arena]\ninitial_bytes = '17G'").find("exceeds max_bytes"),
              std::string::npos);
    EXPECT_NE(
        complaint("[receive_arena]\npages='2M'\nsegment_bytes='1M'").find("less than one page"),
        std::string::npos);
    const std::string many = complaint("[arena]\nmax_bytes = '64T'");
    EXPECT_NE(many.find("x.toml:2"), std::string::npos) << many;
    EXPECT_NE(many.find("more than 1048576 segments of 33554432"), std::string::npos) << many;
    EXPECT_EQ(Config::from_text("[arena]\nmax_bytes='64T'\nsegment_bytes='64M'").arena.max_bytes,
              std::size_t{64} << 40);
}

TEST(Config, faults_are_read_as_the_software_nic_has_them) {
    const Config config = Config::from_text(
        "[[fault]]\naction = 'drop'\noperations = ['send', 'write']\nnth = 5\ntimes = 2\n"
        "[lane]\nspin = '1ms'\n"
        "[[fault]]\naction = 'delay'\nrate = 0.01\nseed = 7\ndelay_us = 500\n");
    EXPECT_EQ(config.faults,
              "drop operations=send,write nth=5 times=2; "
              "delay operations=send,write,read,atomic rate=0.01 seed=7 delay_us=500");
    EXPECT_EQ(config.lane.spin, std::chrono::milliseconds(1));
    EXPECT_EQ(Config::from_text("").faults, "");
}

TEST(Config, says_what_is_wrong_with_a_fault) {
    const struct {
        const char *text, *place, *cause, *remedy;
    } cases[] = {
        {"\nfault = 3", "x.toml:2", "fault is a list of sections", "write [[fault]]"},
        {"\n[fault]\naction = 'drop'", "x.toml:2", "fault is a list of sections",
         "write [[fault]]"},
        {"[[fault]]\nnth = 1", "x.toml:1", "[[fault]] has no action", "write action = "},
        {"[[fault]]\naction = 'dorp'", "x.toml:2", "unknown action dorp", "did you mean drop?"},
        {"[[fault]]\naction = 'drop'\nnht = 1", "x.toml:3", "unknown key of a fault, nht",
         "did you mean nth?"},
        {"[[fault]]\naction = 'drop'\nnth = 'x'", "x.toml:3", "nth = x is not allowed",
         "it must be a number"},
        {"[ring]\nbytes = '1M'\n[[fault]]\naction = 'drop'", "x.toml:3",
         "when it strikes is not said", "give it nth, or a rate above 0"},
        {"[[fualt]]\naction = 'drop'", "x.toml:1", "unknown section [fualt]",
         "did you mean fault?"},
    };
    for (const auto& one : cases) {
        const std::string said = complaint(one.text);
        for (const char* part : {one.place, one.cause, one.remedy})
            EXPECT_NE(said.find(part), std::string::npos) << one.text << " -> " << said;
    }
}

TEST(Config, reports_syntax_errors_and_missing_files) {
    EXPECT_NE(complaint("[ring]\nbytes == 1").find("x.toml:2"), std::string::npos);
    EXPECT_NE(complaint("ring = 3").find("write [ring]"), std::string::npos);
    try {
        (void)Config::from_file("/nonexistent/verbatim.toml");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error);
        EXPECT_EQ(error.object(), "/nonexistent/verbatim.toml");
    }
}

}  // namespace
}  // namespace verbatim
