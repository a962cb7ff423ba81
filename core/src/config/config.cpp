// Reads the TOML file, and says where its sections contradict themselves.
#include <verbatim/core/config.hpp>

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <verbatim/config/settings.hpp>
#include <verbatim/config/toml_document.hpp>

#include "config_keys.hpp"

namespace verbatim {
namespace {

constexpr const char* kLocalFile = "verbatim.toml";

std::vector<Setting> known_settings() {
    std::vector<Setting> known;
    for (const ConfigKey& key : config_keys())
        known.push_back({key.section, key.name, key.allowed});
    return known;
}

std::optional<ConfigValue> value_of(const toml::node& node) {
    if (const auto* flag = node.as_boolean()) return ConfigValue(flag->get());
    if (const auto* number = node.as_integer()) return ConfigValue(number->get());
    if (const auto* text = node.as_string()) return ConfigValue(text->get());
    return std::nullopt;
}

class Reader {
  public:
    Reader(std::string_view toml, std::string_view name)
        : document_(toml, name, "configs/verbatim.toml") {}

    Config read() {
        const auto store = [&](std::size_t index, const toml::node& node) {
            const auto value = value_of(node);
            return value && config_keys()[index].set(config_, *value);
        };
        constexpr std::array<std::string_view, 1> kLists{"poller"};
        const auto begin = [&](std::string_view) { config_.pollers.emplace_back(); };
        if (const auto faults = read_settings(document_, known_settings(), store, kLists, begin))
            config_.faults = softnic::to_text(*faults);
        check_arena(config_.arena);
        check_arena(config_.receive_arena);
        return config_;
    }

  private:
    // What no single key can tell. The line is that of the section.
    void check_arena(const ArenaOptions& arena) const {
        const auto refuse_pair = [&](const std::string& cause, const std::string& remedy) {
            const toml::node* section = document_.table().get(arena.name);
            throw Error(Errc::config_error,
                        section != nullptr ? document_.at(*section) : document_.name(),
                        fmt::format("[{}] {}", arena.name, cause), remedy);
        };
        if (arena.segment_bytes > arena.max_bytes)
            refuse_pair(fmt::format("segment_bytes ({}) exceeds max_bytes ({})",
                                    arena.segment_bytes, arena.max_bytes),
                        "lower segment_bytes or raise max_bytes");
        if (arena.initial_bytes > arena.max_bytes)
            refuse_pair(fmt::format("initial_bytes ({}) exceeds max_bytes ({})",
                                    arena.initial_bytes, arena.max_bytes),
                        "lower initial_bytes or raise max_bytes");
        const std::size_t page = arena.pages == PageChoice::huge_1g   ? std::size_t{1} << 30
                                 : arena.pages == PageChoice::huge_2m ? std::size_t{2} << 20
                                                                      : 4096;
        if (arena.segment_bytes < page)
            refuse_pair(fmt::format("segment_bytes ({}) is less than one page ({})",
                                    arena.segment_bytes, page),
                        "raise segment_bytes or choose smaller pages");
    }

    TomlDocument document_;
    Config config_;
};

}  // namespace

Config Config::from_text(std::string_view toml, std::string_view name) {
    return Reader(toml, name).read();
}

Config Config::found() {
    if (const char* path = std::getenv("VERBATIM_CONFIG"); path != nullptr && *path != '\0')
        return from_file(path);
    return access(kLocalFile, F_OK) == 0 ? from_file(kLocalFile) : Config{};
}

Config Config::from_file(const std::string& path) {
    const std::string text = TomlDocument::read_file(
        path, "check the path (VERBATIM_CONFIG names it) and its permissions");
    return from_text(text, path);
}

}  // namespace verbatim
