// All values of a configuration in one comparable form, and for each key a value that is not its
// default.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include <fmt/format.h>
#include <boost/pfr.hpp>

#include <verbatim/core/config_reference.hpp>

namespace verbatim::test {

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

inline std::string print_all(const Config& c) {
    std::string lists;
    for (const Config::PollerSection& poller : c.pollers) lists += '{' + print(poller) + '}';
    for (const ArenaOptions& arena : c.named_arenas) lists += '(' + print(arena) + ')';
    return print(c.device) + print(c.softnic) + print(c.arena) + print(c.receive_arena) +
           print(c.foreign) + print(c.connect) + print(c.ring) + print(c.lane) + print(c.objects) +
           print(c.telemetry) + lists + c.faults;
}

// As TOML has it.
inline std::string other_value(const ConfigKey& key) {
    static const std::map<std::string_view, std::string> other{
        {"kind", "\"softnic\""},
        {"name", "\"mlx5_1\""},
        {"core", "1"},
        {"port", "2"},
        {"service_level", "3"},
        {"traffic_class", "104"},
        {"assume_in_order", "true"},
        {"gid_index", "3"},
        {"data_path", "\"verbs\""},
        {"strict_doorbells", "true"},
        {"same_user_only", "false"},
        {"segment_bytes", "\"64M\""},
        {"max_bytes", "\"3G\""},
        {"max_entries", "5"},
        {"watch", "false"},
        {"copy_below", "\"8K\""},
        {"initial_bytes", "\"1M\""},
        {"pages", "\"4K\""},
        {"lock_memory", "true"},
        {"numa_node", "0"},
        {"timeout", "\"7ms\""},
        {"key_file", "\"key\""},
        {"enabled", "false"},
        {"interval", "\"7ms\""},
        {"histograms", "true"},
        {"directory", "\"/tmp/x\""},
        {"keep_alive", "\"7s\""},
        {"idle_timeout", "\"9s\""},
        {"loopback_only", "false"},
        {"bytes", "\"4K\""},
        {"send_blocks", "64"},
        {"longest_message", "\"1M\""},
        {"spin", "\"5us\""},
        {"mode", "\"busy\""},
        {"hot", "4"},
        {"completions", "64"},
        {"eager_bytes", "\"8K\""},
        {"window_max", "\"1M\""},
        {"window_budget", "\"64M\""},
        {"max_graph_bytes", "\"16M\""},
        {"window_wait", "\"2s\""},
        {"hostile", "true"},
        {"capture", "\"packets.pcapng\""},
        {"packet_faults", "\"lose=0.01 seed=7\""},
        {"eal", "\"host\""},
        {"dpdk_address", "\"10.0.0.1\""},
        {"dpdk_peer_mac", "\"02:00:00:00:00:01\""},
        {"dpdk_mtu", "9000"}};
    return key.section == "device.softnic" && key.name == "port" ? "\"tcp\"" : other.at(key.name);
}

inline const ConfigSection& section_of(const ConfigKey& key) {
    for (const ConfigSection& section : config_sections())
        if (section.name == key.section) return section;
    throw std::logic_error("a key of no section: " + key.section);
}

// A file that says this key alone, beside those that its section needs.
inline std::string file_with(const ConfigKey& key, const std::string& value) {
    const bool is_list = section_of(key).is_list;
    std::string text = (is_list ? "[[" : "[") + key.section + (is_list ? "]]\n" : "]\n");
    for (const ConfigKey& needed : config_keys())
        if (needed.section == key.section && needed.name != key.name &&
            needed.default_value.empty())
            text += fmt::format("{} = \"needed\"\n", needed.name);
    return text + fmt::format("{} = {}\n", key.name, value);
}

// The text of the Error(config_error) that reading throws.
template <class Read>
std::string config_complaint(Read&& read) {
    try {
        (void)read();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error);
        return error.what();
    }
    return "accepted";
}

}  // namespace verbatim::test
