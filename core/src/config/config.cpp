// Reads the TOML file and says, for whatever is wrong in it, where, what is allowed and what was
// probably meant.
#include <verbatim/core/config.hpp>

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <verbatim/config/fault_tables.hpp>
#include <verbatim/config/toml_document.hpp>
#include <verbatim/driver/advice.hpp>

#include "config_keys.hpp"

namespace verbatim {
namespace {

std::vector<std::string_view> sections() {
    std::vector<std::string_view> names;
    for (const ConfigKey& key : config_keys())
        if (names.empty() || names.back() != key.section) names.push_back(key.section);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

std::vector<std::string_view> keys_of(std::string_view section) {
    std::vector<std::string_view> names;
    for (const ConfigKey& key : config_keys())
        if (key.section == section) names.push_back(key.name);
    return names;
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
        for (const auto& [section, node] : document_.table()) {
            if (section.str() == kFaultSection)
                config_.faults = softnic::to_text(read_faults(document_, node));
            else
                read_section(section.str(), node);
        }
        check_arena(config_.arena);
        check_arena(config_.receive_arena);
        return config_;
    }

  private:
    [[noreturn]] void refuse(const toml::node& node, const std::string& cause,
                             const std::string& remedy) const {
        document_.refuse(node, cause, remedy);
    }

    void read_section(std::string_view section, const toml::node& node) {
        auto known = sections();
        known.push_back(kFaultSection);
        if (std::find(known.begin(), known.end(), section) == known.end())
            refuse(node, fmt::format("unknown section [{}]", section), advice(section, known));
        const toml::table* table = node.as_table();
        if (table == nullptr)
            refuse(node, fmt::format("{} is a section, not a value", section),
                   fmt::format("write [{}]", section));
        for (const auto& [key, value] : *table) read_key(section, key.str(), value);
    }

    void read_key(std::string_view section, std::string_view name, const toml::node& node) {
        const auto keys = config_keys();
        const auto key = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& k) {
            return k.section == section && k.name == name;
        });
        if (key == keys.end())
            refuse(node, fmt::format("unknown key {} in [{}]", name, section),
                   advice(name, keys_of(section)));
        const auto value = value_of(node);
        if (!value || !key->set(config_, *value))
            refuse(node,
                   fmt::format("{} = {} in [{}] is not allowed", name, as_written(node), section),
                   fmt::format("it must be {}", key->allowed));
    }

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

Config Config::from_file(const std::string& path) {
    const std::string text = TomlDocument::read_file(
        path, "check the path (VERBATIM_CONFIG names it) and its permissions");
    return from_text(text, path);
}

}  // namespace verbatim
