// The configuration table is the one list of sections and keys. The parser, environment variables,
// messages, configs/verbatim.toml, docs/configuration.md and `verbatim config` come from it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/core/config_reference.hpp>

#include "config_values.hpp"

namespace verbatim {

// How many sections of a list there are, and one more.
struct ListAccess {
    std::size_t (*count)(const Config&);
    void (*append)(Config&);
};

class ConfigTable {
  public:
    // The keys that follow are its own.
    void begin(std::string_view section, std::string_view help);
    void begin_list(std::string_view section, ListAccess list, std::string_view help);
    void add(std::string_view name, ConfigAccess access, std::string_view help);

    // Of all keys; built once.
    static const ConfigTable& all();

    const std::vector<ConfigSection>& sections() const { return sections_; }
    const std::vector<ConfigKey>& keys() const { return keys_; }
    const ConfigAccess& access(std::size_t key) const { return accesses_[key]; }
    // Null: the section is no list.
    const ListAccess* list(std::string_view section) const;
    // The last one of a list, where a file's reader is; else 0.
    std::size_t last_item(std::size_t key, const Config& config) const;

  private:
    std::vector<ConfigSection> sections_;
    std::vector<ListAccess> lists_;  // of each section; null functions where it is no list
    std::vector<ConfigKey> keys_;
    std::vector<ConfigAccess> accesses_;
};

// VERBATIM_<SECTION>_<KEY>; without a key the beginning of all variables of the section.
std::string variable_of(std::string_view section, std::string_view key = "");

// The parts of the table, in its order.
void add_device_keys(ConfigTable& table);
void add_arena_keys(ConfigTable& table);
void add_connection_keys(ConfigTable& table);
void add_lane_keys(ConfigTable& table);
void add_telemetry_keys(ConfigTable& table);
void add_object_keys(ConfigTable& table);

}  // namespace verbatim
