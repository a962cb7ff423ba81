// The configuration reference describes every key of a configuration file, and traces values to the
// places that set them. For programs that explain or check configurations. Threads: any.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <verbatim/core/config.hpp>

namespace verbatim {

struct ConfigSection {
    std::string name;  // "ring", "device.softnic"
    bool is_list;      // [[name]], any number of times
    std::string help;
};

struct ConfigKey {
    std::string section, name;
    std::string allowed;        // "a size from 4K to 64M, a power of two"
    std::string default_value;  // as TOML; empty: the key must be given
    std::string variable;  // of the environment, in its place; empty: none, the section is a list
    std::string help;
};

// In the order of documentation; keys of a section are neighbours. Both live as long as the
// program.
std::span<const ConfigSection> config_sections();
std::span<const ConfigKey> config_keys();

// A configuration and the places of its values: "verbatim.toml:3", "VERBATIM_RING_BYTES".
struct TracedConfig {
    Config config;
    std::string file;  // that was read; empty: none
    // By the key's index in config_keys(), and the number of the section in its list, else 0.
    std::map<std::pair<std::size_t, std::size_t>, std::string> places;

    // As the functions of Config with these names. Throw Error(config_error).
    static TracedConfig found();
    static TracedConfig from_file(const std::string& path);
    static TracedConfig from_text(std::string_view toml, std::string_view name = "<text>");

    // Sections of that name: of a list as many as it has, else 1.
    std::size_t count(const ConfigSection& section) const;
    // As TOML. `item` is less than count() of the key's section.
    std::string value(std::size_t key, std::size_t item = 0) const;
    // Empty: nothing set the value, it is the default.
    std::string place(std::size_t key, std::size_t item = 0) const;
};

}  // namespace verbatim
