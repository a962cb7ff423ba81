// Variables of the environment in place of keys.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include <toml++/toml.h>

#include "config/config_parts.hpp"
#include "core_config_values.hpp"

namespace verbatim {
namespace {

using test::print_all;

// A directory of its own to read ./verbatim.toml in, and variables that end with the test.
class ConfigEnvironment : public testing::Test {
  protected:
    ConfigEnvironment() : before_(std::filesystem::current_path()) {
        std::string name = std::filesystem::temp_directory_path() / "config-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no directory");
        directory_ = name;
        std::filesystem::current_path(directory_);
    }
    ~ConfigEnvironment() override {
        for (const std::string& name : set_) unsetenv(name.c_str());
        std::filesystem::current_path(before_);
        std::filesystem::remove_all(directory_);
    }
    void set(const std::string& name, const std::string& value) {
        setenv(name.c_str(), value.c_str(), 1);
        set_.push_back(name);
    }
    static void write(const char* name, const std::string& text) { std::ofstream(name) << text; }
    static std::string complaint() {
        return test::config_complaint([] { return Config::found(); });
    }

  private:
    std::filesystem::path before_, directory_;
    std::vector<std::string> set_;
};

std::string without_quotes(const std::string& toml) {
    return toml::parse("x = " + toml)["x"].value<std::string>().value_or(toml);
}

TEST_F(ConfigEnvironment, sets_each_key_as_the_file_does) {
    for (const ConfigKey& key : config_keys()) {
        if (key.variable.empty()) continue;
        const std::string value = test::other_value(key);
        const std::string entry = key.variable + "=" + without_quotes(value);
        const char* const environment[] = {"HOME=/", entry.c_str(), nullptr};
        TracedConfig traced;
        apply_environment(traced, environment);
        EXPECT_EQ(print_all(traced.config),
                  print_all(Config::from_text(test::file_with(key, value))))
            << entry;
        EXPECT_NE(print_all(traced.config), print_all(Config{})) << entry;
    }
}

TEST_F(ConfigEnvironment, no_two_keys_have_the_same_variable) {
    std::set<std::string> variables;
    for (const ConfigKey& key : config_keys())
        EXPECT_TRUE(key.variable.empty() || variables.insert(key.variable).second) << key.variable;
    EXPECT_TRUE(variables.contains("VERBATIM_DEVICE_SOFTNIC_PORT"));
}

TEST_F(ConfigEnvironment, wins_over_the_file_and_the_rest_of_the_file_stays) {
    write("verbatim.toml", "[ring]\nbytes = '8K'\nsend_blocks = 32\n");
    set("VERBATIM_RING_BYTES", "64K");
    for (const Config& config : {Config::found(), Config::from_file("verbatim.toml")}) {
        EXPECT_EQ(config.ring.bytes, 65536u);
        EXPECT_EQ(config.ring.send_blocks, 32u);
    }
    EXPECT_EQ(Config::from_text("[ring]\nbytes = '8K'\n").ring.bytes, 8192u);
}

TEST_F(ConfigEnvironment, counts_without_a_file_and_with_one_that_a_variable_names) {
    set("VERBATIM_LANE_MODE", "busy");
    EXPECT_EQ(Config::found().lane.mode, LaneMode::busy);
    write("other.toml", "[lane]\nmode = 'event'\nhot = 3\n");
    set("VERBATIM_CONFIG", "other.toml");
    EXPECT_EQ(Config::found().lane.mode, LaneMode::busy);
    EXPECT_EQ(Config::found().lane.hot, 3u);
}

TEST_F(ConfigEnvironment, a_free_text_may_look_like_a_number_a_flag_or_nothing) {
    for (const char* name : {"17", "true", "", "a=b", "\"quoted\""}) {
        set("VERBATIM_DEVICE_NAME", name);
        EXPECT_EQ(Config::found().device.name, name);
    }
}

TEST_F(ConfigEnvironment, says_variable_value_and_what_is_allowed) {
    const std::pair<const char*, const char*> bad[] = {
        {"VERBATIM_RING_BYTES", "5000"},
        {"VERBATIM_RING_BYTES", "1.5"},
        {"VERBATIM_RING_BYTES", ""},
        {"VERBATIM_RING_BYTES", "'64K'"},
        {"VERBATIM_RING_SEND_BLOCKS", "64K"},
        {"VERBATIM_LANE_HOT", "4 "},
        {"VERBATIM_LANE_HOT", "+4"},
        {"VERBATIM_LANE_HOT", "99999999999999999999"},
        {"VERBATIM_LANE_SPIN", "20"},
        {"VERBATIM_OBJECTS_HOSTILE", "1"},
        {"VERBATIM_OBJECTS_HOSTILE", "True"},
        {"VERBATIM_DEVICE_KIND", "ib"},
        {"VERBATIM_DEVICE_KIND", "\"softnic\""}};
    for (const auto& [name, value] : bad) {
        set(name, value);
        const std::string said = complaint();
        EXPECT_NE(said.find(name), std::string::npos) << said;
        EXPECT_NE(said.find(fmt::format("its value \"{}\" is not allowed", value)),
                  std::string::npos)
            << said;
        EXPECT_NE(said.find("it must be"), std::string::npos) << said;
        unsetenv(name);
    }
}

TEST_F(ConfigEnvironment, refuses_what_names_no_key_of_a_section) {
    const std::pair<const char*, const char*> unknown[] = {
        {"VERBATIM_RING_BITES", "did you mean VERBATIM_RING_BYTES?"},
        {"VERBATIM_RECEIVE_ARENA_PAGE", "did you mean VERBATIM_RECEIVE_ARENA_PAGES?"},
        {"VERBATIM_DEVICE_SOFTNIC_POTR", "did you mean VERBATIM_DEVICE_SOFTNIC_PORT?"},
        {"VERBATIM_LANE_ZZZZZZZZZZZZ", "known are: VERBATIM_LANE_MODE"},
        {"VERBATIM_POLLER_CORE", "[[poller]] has no variables"},
        {"VERBATIM_NAMED_ARENA_PAGES", "write the section into the configuration file"}};
    for (const auto& [name, said] : unknown) {
        set(name, "1");
        EXPECT_NE(complaint().find(said), std::string::npos) << complaint();
        unsetenv(name);
    }
}

// A new one must be added here, and must not begin as those of a section.
TEST_F(ConfigEnvironment, leaves_other_variables_of_this_tree_alone) {
    for (const char* name : {"VERBATIM_LOG",
                             "VERBATIM_LONG",
                             "VERBATIM_SEED",
                             "VERBATIM_SOFTNIC",
                             "VERBATIM_SOFTNIC_CM_TIMEOUT_MS",
                             "VERBATIM_SOFTNIC_COUNT_STORES",
                             "VERBATIM_SOFTNIC_DEVICES",
                             "VERBATIM_SOFTNIC_DOORBELLS",
                             "VERBATIM_SOFTNIC_FAULTS",
                             "VERBATIM_SOFTNIC_LIBRARY",
                             "VERBATIM_SOFTNIC_MTU",
                             "VERBATIM_SOFTNIC_RING_BYTES",
                             "VERBATIM_SOFTNIC_SHARE",
                             "VERBATIM_SOFTNIC_TREE",
                             "VERBATIM_TEST_DATA_PATH",
                             "VERBATIM_TEST_DEVICE",
                             "VERBATIM_TEST_PORT",
                             "VERBATIM_TEST_SEND_BLOCKS",
                             "VERBATIM_",
                             "VERBATIM_RING",
                             "VERBATIMRING_BYTES"})
        set(name, "1");
    set("VERBATIM_CONFIG", "");
    EXPECT_EQ(print_all(Config::found()), print_all(Config{}));
}

TEST_F(ConfigEnvironment, a_contradiction_is_found_where_it_was_set) {
    write("verbatim.toml", "[arena]\nsegment_bytes = '8M'\n");
    set("VERBATIM_ARENA_MAX_BYTES", "4M");
    EXPECT_NE(complaint().find("VERBATIM_ARENA_MAX_BYTES: [arena] segment_bytes (8388608) exceeds"),
              std::string::npos)
        << complaint();
    // And resolved there: neither the file nor the variable alone is looked at.
    set("VERBATIM_ARENA_SEGMENT_BYTES", "2M");
    EXPECT_EQ(Config::found().arena.segment_bytes, std::size_t{2} << 20);
}

TEST_F(ConfigEnvironment, is_named_as_the_place_of_its_values) {
    write("verbatim.toml", "[ring]\nbytes = '8K'\nsend_blocks = 32\n");
    set("VERBATIM_RING_BYTES", "64K");
    const TracedConfig traced = TracedConfig::found();
    EXPECT_EQ(traced.file, "verbatim.toml");
    for (std::size_t i = 0; i < config_keys().size(); ++i) {
        const ConfigKey& key = config_keys()[i];
        if (key.section != "ring") continue;
        EXPECT_EQ(traced.place(i), key.name == "bytes"         ? "VERBATIM_RING_BYTES"
                                   : key.name == "send_blocks" ? "verbatim.toml:3"
                                                               : "");
    }
}

}  // namespace
}  // namespace verbatim
