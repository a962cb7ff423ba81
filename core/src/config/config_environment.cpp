// Environment variables in place of keys. Other variables of ours must not begin as those of a
// section: core_config_environment_test lists them.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <verbatim/driver/advice.hpp>

#include "config_parts.hpp"
#include "config_table.hpp"

namespace verbatim {
namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, number);
    return error == std::errc{} && stopped == end ? std::optional(number) : std::nullopt;
}

// Files have no other texts; what is accepted here can be written into one.
bool is_utf8(std::string words) try {
    const auto is_ascii = [](char letter) { return (letter & 0x80) == 0; };
    std::replace_if(words.begin(), words.end(), is_ascii, ' ');
    (void)toml::parse("text = '" + words + "'");
    return true;
} catch (const toml::parse_error&) {
    return false;
}

// A variable is a text; the key decides whether it means a number or a flag.
bool store_words(std::size_t key, Config& config, const std::string& words) {
    const auto& set = ConfigTable::all().access(key).set;
    if (set(config, 0, words)) return true;
    if (const auto number = whole_number(words)) return set(config, 0, *number);
    return (words == "true" || words == "false") && set(config, 0, words == "true");
}

[[noreturn]] void refuse_variable(std::string_view name, const std::string& cause,
                                  const std::string& remedy) {
    throw Error(Errc::config_error, fmt::format("environment variable {}", name), cause, remedy);
}

// Of the section whose variables begin like this one, if there is any.
void refuse_if_meant(std::string_view name) {
    std::vector<std::string_view> near;
    for (const ConfigSection& section : config_sections()) {
        if (!name.starts_with(variable_of(section.name))) continue;
        if (section.is_list)
            refuse_variable(name, fmt::format("[[{}]] has no variables", section.name),
                            "write the section into the configuration file");
        for (const ConfigKey& key : config_keys())
            if (key.section == section.name) near.push_back(key.variable);
    }
    if (!near.empty()) refuse_variable(name, "no key has this variable", advice(name, near));
}

void apply_variable(TracedConfig& traced, std::string_view name, const std::string& words) {
    const auto keys = config_keys();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (keys[i].variable != name) continue;
        if (!is_utf8(words))
            refuse_variable(name, "its value is no UTF-8 text",
                            fmt::format("it must be {}", keys[i].allowed));
        if (!store_words(i, traced.config, words))
            refuse_variable(name, fmt::format("its value \"{}\" is not allowed", words),
                            fmt::format("it must be {}", keys[i].allowed));
        traced.places[{i, 0}] = name;
        return;
    }
    refuse_if_meant(name);
}

}  // namespace

void apply_environment(TracedConfig& traced, const char* const* environment) {
    for (; environment != nullptr && *environment != nullptr; ++environment) {
        const std::string_view entry = *environment;
        const std::size_t equals = entry.find('=');
        if (!entry.starts_with("VERBATIM_") || equals == std::string_view::npos) continue;
        apply_variable(traced, entry.substr(0, equals), std::string(entry.substr(equals + 1)));
    }
}

}  // namespace verbatim
