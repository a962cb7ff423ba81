// Help in a terminal.
#include <vector>

#include <fmt/format.h>

#include <verbatim/driver/advice.hpp>
#include <verbatim/driver/error.hpp>

#include "config_text.hpp"

namespace cli {
namespace {

using verbatim::ConfigKey;
using verbatim::ConfigSection;

std::string full_name(const ConfigKey& key) { return key.section + '.' + key.name; }

std::string default_of(const ConfigKey& key) {
    return key.default_value.empty() ? "none: it must be given" : key.default_value;
}

std::string explain_key(const ConfigKey& key) {
    return fmt::format("{}\n{}  allowed      {}\n  default      {}\n  environment  {}\n",
                       full_name(key), wrapped(key.help, "  ", 80), key.allowed, default_of(key),
                       key.variable.empty() ? "none: the section is one of a list" : key.variable);
}

std::string explain_section(const ConfigSection& section) {
    std::string all = header_of(section) + '\n' + wrapped(section.help, "  ", 80);
    for (const ConfigKey& key : verbatim::config_keys())
        if (key.section == section.name) all += '\n' + explain_key(key);
    return all;
}

[[noreturn]] void refuse_name(std::string_view name) {
    std::vector<std::string> names;
    for (const ConfigSection& section : verbatim::config_sections()) names.push_back(section.name);
    for (const ConfigKey& key : verbatim::config_keys()) {
        names.push_back(full_name(key));
        if (!key.variable.empty() && name.starts_with("VERBATIM_")) names.push_back(key.variable);
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    throw verbatim::Error(verbatim::Errc::config_error, std::string(name),
                          "no key, section or variable has this name",
                          verbatim::advice(name, known));
}

}  // namespace

std::string key_overview() {
    std::string all = "Keys, each with its default and what is allowed:\n";
    for (const ConfigKey& key : verbatim::config_keys())
        all += fmt::format("  {:<29} {:<10} {}\n", full_name(key),
                           key.default_value.empty() ? "-" : key.default_value, key.allowed);
    return all +
           "\nIn the environment VERBATIM_RING_BYTES=64K sets ring.bytes, and so on for all\n"
           "sections but those of lists (poller, named_arena).";
}

std::string explanation(std::string_view name) {
    for (const ConfigSection& section : verbatim::config_sections())
        if (name == section.name) return explain_section(section);
    for (const ConfigKey& key : verbatim::config_keys())
        if (name == full_name(key) || (!key.variable.empty() && name == key.variable))
            return explain_key(key);
    refuse_name(name);
}

}  // namespace cli
