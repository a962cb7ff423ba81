// The configuration file: defaults, values, and what it says about mistakes.
#include <verbatim/core/config.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <boost/pfr.hpp>

#include "config/config_keys.hpp"

namespace verbatim {
namespace {

const std::string kShipped = VERBATIM_SOURCE_ROOT "/configs/verbatim.toml";

std::string complaint(std::string_view text) {
    try {
        (void)Config::from_text(text, "x.toml");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error);
        return error.what();
    }
    return "accepted";
}

std::string read_shipped() {
    std::ifstream file(kShipped);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// All values of a configuration in one comparable form.
template <class Section>
std::string print(const Section& section) {
    std::string all;
    boost::pfr::for_each_field(section, [&all](const auto& field) {
        using Field = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<Field, std::string>)
            all += field;
        else if constexpr (std::is_enum_v<Field>)
            all += std::to_string(static_cast<int>(field));
        else if constexpr (requires { field.count(); })
            all += std::to_string(field.count());
        else
            all += std::to_string(field);
        all += ';';
    });
    return all;
}
std::string print_pollers(const Config& c) {
    std::string all;
    for (const Config::PollerSection& poller : c.pollers) all += '{' + print(poller) + '}';
    return all;
}
std::string print_all(const Config& c) {
    return print(c.device) + print(c.softnic) + print(c.arena) + print(c.receive_arena) +
           print(c.foreign) + print(c.connect) + print(c.ring) + print(c.lane) + print_pollers(c) +
           print(c.objects) + c.faults;
}

TEST(Config, shipped_file_holds_exactly_the_defaults) {
    EXPECT_EQ(print_all(Config::from_file(kShipped)), print_all(Config{}));
    EXPECT_EQ(print_all(Config::from_text("")), print_all(Config{}));
}

TEST(Config, shipped_file_shows_every_key) {
    const toml::table table = toml::parse_file(kShipped);
    for (const ConfigKey& key : config_keys()) {
        if (key.section == "poller")  // of which there are none by default
            EXPECT_NE(read_shipped().find(fmt::format("# {} = ", key.name)), std::string::npos);
        else
            EXPECT_TRUE(table.at_path(fmt::format("{}.{}", key.section, key.name)))
                << key.section << '.' << key.name;
    }
}

TEST(Config, every_member_has_a_key) {
    std::map<std::string_view, std::size_t> count;
    for (const ConfigKey& key : config_keys()) ++count[key.section];
    EXPECT_EQ(count["device"], boost::pfr::tuple_size_v<Config::DeviceSection>);
    EXPECT_EQ(count["device.softnic"], boost::pfr::tuple_size_v<Config::SoftnicSection>);
    EXPECT_EQ(count["arena"], boost::pfr::tuple_size_v<ArenaOptions> - 1);  // all but its name
    EXPECT_EQ(count["receive_arena"], boost::pfr::tuple_size_v<ArenaOptions> - 1);
    EXPECT_EQ(count["connect"], boost::pfr::tuple_size_v<Config::ConnectSection>);
    EXPECT_EQ(count["ring"], boost::pfr::tuple_size_v<Config::RingSection>);
    EXPECT_EQ(count["lane"], boost::pfr::tuple_size_v<Config::LaneSection>);
    EXPECT_EQ(count["poller"], boost::pfr::tuple_size_v<Config::PollerSection>);
    EXPECT_EQ(count["objects"], boost::pfr::tuple_size_v<Config::ObjectsSection>);
    EXPECT_EQ(count["foreign"], boost::pfr::tuple_size_v<RegistrationOptions>);
    // And the named arenas and the list of [[fault]] sections, which are not keys.
    EXPECT_EQ(count.size() + 2, boost::pfr::tuple_size_v<Config>);
}

TEST(Config, every_key_changes_something) {
    const std::map<std::string_view, std::string> other{{"kind", "'softnic'"},
                                                        {"name", "'mlx5_1'"},
                                                        {"core", "1"},
                                                        {"port", "2"},
                                                        {"service_level", "3"},
                                                        {"traffic_class", "104"},
                                                        {"assume_in_order", "true"},
                                                        {"gid_index", "3"},
                                                        {"data_path", "'verbs'"},
                                                        {"strict_doorbells", "true"},
                                                        {"same_user_only", "false"},
                                                        {"segment_bytes", "'64M'"},
                                                        {"max_bytes", "'3G'"},
                                                        {"max_entries", "5"},
                                                        {"watch", "false"},
                                                        {"copy_below", "'8K'"},
                                                        {"initial_bytes", "'1M'"},
                                                        {"pages", "'4K'"},
                                                        {"lock_memory", "true"},
                                                        {"numa_node", "0"},
                                                        {"timeout", "'7ms'"},
                                                        {"loopback_only", "false"},
                                                        {"bytes", "'4K'"},
                                                        {"send_blocks", "32"},
                                                        {"longest_message", "'1M'"},
                                                        {"spin", "'5us'"},
                                                        {"mode", "'busy'"},
                                                        {"hot", "4"},
                                                        {"completions", "64"},
                                                        {"staging_bytes", "8192"},
                                                        {"direct_bytes", "0"},
                                                        {"checksum", "true"}};
    std::set<std::string> seen{print_all(Config{})};
    for (const ConfigKey& key : config_keys()) {
        const bool way = key.section == "device.softnic";
        const std::string text =
            fmt::format("{}\n{} = {}",
                        key.section == "poller" ? "[[poller]]" : fmt::format("[{}]", key.section),
                        key.name, way ? "'tcp'" : other.at(key.name));
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
        "[device.softnic]\nport = 'udp'",
        "[device.softnic]\nport = 'dpdk:net_memif0'",
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

TEST(Config, the_shipped_file_shows_a_fault_that_is_read) {
    const std::string shipped = read_shipped();
    const std::size_t at = shipped.find("# [[fault]]");
    ASSERT_NE(at, std::string::npos);
    std::string uncommented;
    for (std::istringstream lines(shipped.substr(at)); lines;) {
        std::string line;
        std::getline(lines, line);
        if (line.starts_with("# ")) uncommented += line.substr(2) + '\n';
    }
    EXPECT_NE(Config::from_text(uncommented).faults, "");
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
