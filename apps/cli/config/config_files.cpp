// Configurations as TOML.
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "config_text.hpp"

namespace cli {
namespace {

using verbatim::ConfigKey;
using verbatim::ConfigSection;
using verbatim::TracedConfig;

constexpr std::string_view kFileBeginning =
    R"(# Verbatim's configuration: every key with its default; a file needs only the keys that it changes. Found by
# $VERBATIM_CONFIG, else ./verbatim.toml. Unknown keys and values out of range are refused. Sizes are a number of bytes,
# or a text with K, M, G or T (powers of 1024); durations are texts: "20us", "5ms", "1s". VERBATIM_<SECTION>_<KEY> in the
# environment sets a key, too (docs/configuration.md). Made by `verbatim config --toml`.
)";

constexpr std::string_view kFaultExample =
    R"(
# Software NIC: what goes wrong on purpose, as many rules as you like; none by default. configs/softnic.toml has all
# keys of a rule, docs/softnic.md, "Faults", says what each does. A context on an RDMA device is refused with them.
# [[fault]]
# action = "delay"
# operations = ["send", "write"]
# rate = 0.01
# seed = 7
# delay_us = 500
)";

std::string default_line(const ConfigKey& key) {
    const std::string& value = key.default_value;
    return fmt::format("{} = {}  # {}\n", key.name, value.empty() ? "\"NAME\"" : value,
                       key.allowed);
}

// Comments of keys stand once, in the first section that has them; that section, if it is another.
std::string_view commented_in(const ConfigSection& section) {
    for (const ConfigKey& key : verbatim::config_keys())
        if (key.section == section.name && first_section_of(key) != section.name)
            return first_section_of(key);
    return "";
}

std::string section_comment(const ConfigSection& section) {
    const std::string_view elsewhere = commented_in(section);
    if (elsewhere.empty()) return wrapped(section.help, "# ");
    return wrapped(
        fmt::format("{} Keys without a comment are those of [{}].", section.help, elsewhere), "# ");
}

std::string default_section(const ConfigSection& section) {
    std::string all = header_of(section) + '\n';
    for (const ConfigKey& key : verbatim::config_keys()) {
        if (key.section != section.name) continue;
        if (first_section_of(key) == section.name) all += wrapped(key.help, "# ", 118);
        all += default_line(key);
    }
    return all;
}

// A section of a list is there once it is written: as a comment it is an example.
std::string as_comment(std::string_view section) {
    std::string all;
    while (!section.empty()) {
        const std::size_t end = section.find('\n') + 1;
        all.append("# ").append(section.substr(0, end));
        section = section.substr(end);
    }
    return all;
}

bool is_bare(const std::string& value) {
    double number = 0;
    const char* const end = value.data() + value.size();
    return value == "true" || value == "false" ||
           std::from_chars(value.data(), end, number).ptr == end;
}

// Of words such as "drop operations=send nth=5; delay rate=0.01 delay_us=200".
std::string fault_sections(std::string_view words) {
    std::string all;
    while (!words.empty()) {
        const std::size_t end = words.find_first_of(" ;");
        const std::string word(words.substr(0, end));
        const std::size_t equals = word.find('=');
        const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
        if (word.empty()) {  // between two
        } else if (value.empty()) {
            all += fmt::format("\n[[fault]]\naction = \"{}\"\n", word);
        } else {
            const std::string_view quote = is_bare(value) ? "" : "\"";
            all += fmt::format("{} = {}{}{}\n", word.substr(0, equals), quote, value, quote);
        }
        words = end == std::string_view::npos ? "" : words.substr(end + 1);
    }
    return all;
}

std::string effective_section(const TracedConfig& traced, const ConfigSection& section,
                              std::size_t item) {
    std::string all = '\n' + header_of(section) + '\n';
    const auto keys = verbatim::config_keys();
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (keys[i].section != section.name) continue;
        const std::string line = fmt::format("{} = {}", keys[i].name, traced.value(i, item));
        const std::string place = traced.place(i, item);
        all += place.empty() ? line + '\n' : fmt::format("{:<32}  # {}\n", line, place);
    }
    return all;
}

}  // namespace

std::string default_file() {
    std::string all(kFileBeginning);
    for (const ConfigSection& section : verbatim::config_sections()) {
        const std::string text = default_section(section);
        all += '\n' + section_comment(section) + (section.is_list ? as_comment(text) : text);
    }
    return all.append(kFaultExample);
}

std::string effective_file(const TracedConfig& traced) {
    std::string all = traced.file.empty()
                          ? "# No configuration file; defaults and the environment.\n"
                          : fmt::format("# {} and the environment.\n", traced.file);
    for (const ConfigSection& section : verbatim::config_sections())
        for (std::size_t item = 0; item < traced.count(section); ++item)
            all += effective_section(traced, section, item);
    return all + fault_sections(traced.config.faults);
}

}  // namespace cli
