// The ways to a configuration: the file that is found, one that is named, a text.
#include <verbatim/core/config.hpp>

#include <unistd.h>

#include <cstdlib>

#include <verbatim/config/toml_document.hpp>
#include <verbatim/core/config_reference.hpp>

#include "config_parts.hpp"
#include "config_table.hpp"

namespace verbatim {
namespace {

constexpr const char* kLocalFile = "verbatim.toml";

TracedConfig with_environment(TracedConfig traced) {
    apply_environment(traced, environ);
    check_together(traced);
    return traced;
}

}  // namespace

TracedConfig TracedConfig::from_text(std::string_view toml, std::string_view name) {
    TracedConfig traced = read_toml(toml, name);
    check_together(traced);
    return traced;
}

TracedConfig TracedConfig::from_file(const std::string& path) {
    const std::string text = TomlDocument::read_file(
        path, "check the path (VERBATIM_CONFIG names it) and its permissions");
    return with_environment(read_toml(text, path));
}

TracedConfig TracedConfig::found() {
    if (const char* path = std::getenv("VERBATIM_CONFIG"); path != nullptr && *path != '\0')
        return from_file(path);
    if (access(kLocalFile, F_OK) == 0) return from_file(kLocalFile);
    return with_environment({});
}

std::size_t TracedConfig::count(const ConfigSection& section) const {
    const ListAccess* const list = ConfigTable::all().list(section.name);
    return list == nullptr ? 1 : list->count(config);
}

std::string TracedConfig::value(std::size_t key, std::size_t item) const {
    return ConfigTable::all().access(key).get(config, item);
}

std::string TracedConfig::place(std::size_t key, std::size_t item) const {
    const auto found_place = places.find({key, item});
    return found_place == places.end() ? "" : found_place->second;
}

Config Config::from_text(std::string_view toml, std::string_view name) {
    return TracedConfig::from_text(toml, name).config;
}
Config Config::from_file(const std::string& path) { return TracedConfig::from_file(path).config; }
Config Config::found() { return TracedConfig::found().config; }

}  // namespace verbatim
