// Reads the TOML file, and remembers the line of each value.
#include <array>
#include <optional>
#include <vector>

#include <toml++/toml.h>

#include <verbatim/config/settings.hpp>
#include <verbatim/config/toml_document.hpp>

#include "config_parts.hpp"
#include "config_table.hpp"

namespace verbatim {
namespace {

std::optional<ConfigValue> value_of(const toml::node& node) {
    if (const auto* flag = node.as_boolean()) return ConfigValue(flag->get());
    if (const auto* number = node.as_integer()) return ConfigValue(number->get());
    if (const auto* text = node.as_string()) return ConfigValue(text->get());
    return std::nullopt;
}

// Names of all sections' keys, or of the sections that are lists; they live as long as the table.
std::vector<Setting> known_settings() {
    std::vector<Setting> known;
    for (const ConfigKey& key : config_keys())
        known.push_back({key.section, key.name, key.allowed});
    return known;
}
std::vector<std::string_view> known_lists() {
    std::vector<std::string_view> lists;
    for (const ConfigSection& section : config_sections())
        if (section.is_list) lists.push_back(section.name);
    return lists;
}

class ConfigReader {
  public:
    ConfigReader(std::string_view toml, std::string_view name)
        : document_(toml, name, "configs/verbatim.toml") {
        traced_.file = name;
    }

    TracedConfig read() {
        const auto store_here = [&](std::size_t key, const toml::node& node) {
            return store(key, node);
        };
        const auto begin_here = [&](std::string_view section, const toml::node& node) {
            begin(section, node);
        };
        if (const auto faults =
                read_settings(document_, known_settings(), store_here, known_lists(), begin_here))
            traced_.config.faults = softnic::to_text(*faults);
        return std::move(traced_);
    }

  private:
    bool store(std::size_t key, const toml::node& node) {
        const ConfigTable& table = ConfigTable::all();
        const std::size_t item = table.last_item(key, traced_.config);
        const auto value = value_of(node);
        if (!value || !table.access(key).set(traced_.config, item, *value)) return false;
        traced_.places[{key, item}] = document_.at(node);
        return true;
    }

    void begin(std::string_view section, const toml::node& node) {
        ConfigTable::all().list(section)->append(traced_.config);
        for (const ConfigKey& key : config_keys())
            if (key.section == section && key.default_value.empty() &&
                !node.as_table()->contains(key.name))
                document_.refuse(node, "[[" + key.section + "]] has no " + key.name,
                                 "write " + key.name + " = ..., " + key.allowed);
    }

    TomlDocument document_;
    TracedConfig traced_;
};

}  // namespace

TracedConfig read_toml(std::string_view toml, std::string_view name) {
    return ConfigReader(toml, name).read();
}

}  // namespace verbatim
