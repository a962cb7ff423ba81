// Defaults are read from a configuration that nothing has changed, so that they stand once.
#include "config_table.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace verbatim {

void ConfigTable::begin(std::string_view section, std::string_view help) {
    sections_.push_back({std::string(section), false, std::string(help)});
    lists_.push_back({nullptr, nullptr});
}

void ConfigTable::begin_list(std::string_view section, ListAccess list, std::string_view help) {
    sections_.push_back({std::string(section), true, std::string(help)});
    lists_.push_back(list);
}

void ConfigTable::add(std::string_view name, ConfigAccess access, std::string_view help) {
    const ConfigSection& section = sections_.back();
    Config untouched;
    if (section.is_list) lists_.back().append(untouched);
    keys_.push_back({section.name, std::string(name), access.allowed,
                     access.required ? "" : access.get(untouched, 0),
                     section.is_list ? "" : variable_of(section.name, name), std::string(help)});
    accesses_.push_back(std::move(access));
}

const ConfigTable& ConfigTable::all() {
    static const ConfigTable table = [] {
        ConfigTable built;
        add_device_keys(built);
        add_arena_keys(built);
        add_connection_keys(built);
        add_lane_keys(built);
        add_telemetry_keys(built);
        add_object_keys(built);
        return built;
    }();
    return table;
}

const ListAccess* ConfigTable::list(std::string_view section) const {
    for (std::size_t i = 0; i < sections_.size(); ++i)
        if (sections_[i].name == section) return sections_[i].is_list ? &lists_[i] : nullptr;
    return nullptr;
}

std::size_t ConfigTable::last_item(std::size_t key, const Config& config) const {
    const ListAccess* const of = list(keys_[key].section);
    return of == nullptr ? 0 : of->count(config) - 1;
}

std::string variable_of(std::string_view section, std::string_view key) {
    std::string name = fmt::format("VERBATIM_{}_{}", section, key);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) {
        return letter == '.' ? '_' : static_cast<char>(std::toupper(letter));
    });
    return name;
}

std::span<const ConfigSection> config_sections() { return ConfigTable::all().sections(); }
std::span<const ConfigKey> config_keys() { return ConfigTable::all().keys(); }

}  // namespace verbatim
