// Says of what is wrong where it is, what is allowed and what was probably meant.
#include <verbatim/config/settings.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <verbatim/driver/advice.hpp>

namespace verbatim {
namespace {

std::vector<std::string_view> sections_of(std::span<const Setting> known) {
    std::vector<std::string_view> names;
    for (const Setting& setting : known)
        if (names.empty() || names.back() != setting.section) names.push_back(setting.section);
    names.push_back(kFaultSection);
    return names;
}

std::vector<std::string_view> names_in(std::span<const Setting> known, std::string_view section) {
    std::vector<std::string_view> names;
    for (const Setting& setting : known)
        if (setting.section == section) names.push_back(setting.name);
    return names;
}

// One of a section, those of a list. `is_list` is asked of sections.
std::vector<const toml::table*> tables_of(const TomlDocument& document, std::string_view section,
                                          const toml::node& node, bool is_list) {
    if (!is_list) {
        if (!node.is_table())
            document.refuse(node, fmt::format("{} is a section, not a value", section),
                            fmt::format("write [{}]", section));
        return {node.as_table()};
    }
    const toml::array* const list = node.as_array();
    if (list == nullptr || !list->is_homogeneous(toml::node_type::table))
        document.refuse(node, fmt::format("{} is a list of sections", section),
                        fmt::format("write [[{}]]", section));
    std::vector<const toml::table*> tables;
    for (const toml::node& item : *list) tables.push_back(item.as_table());
    return tables;
}

}  // namespace

std::optional<softnic::FaultPolicy> read_settings(const TomlDocument& document,
                                                  std::span<const Setting> known,
                                                  const StoreSetting& store,
                                                  std::span<const std::string_view> lists,
                                                  const BeginTable& begin) {
    const auto read_value = [&](std::string_view section, std::string_view name,
                                const toml::node& node) {
        const auto setting = std::find_if(known.begin(), known.end(), [&](const Setting& one) {
            return one.section == section && one.name == name;
        });
        if (setting == known.end())
            document.refuse(node, fmt::format("unknown key {} in [{}]", name, section),
                            advice(name, names_in(known, section)));
        if (!store(static_cast<std::size_t>(setting - known.begin()), node))
            document.refuse(
                node,
                fmt::format("{} = {} in [{}] is not allowed", name, as_written(node), section),
                fmt::format("it must be {}", setting->allowed));
    };
    // A table in a section is a section of its own, if it is known: [device.softnic].
    const auto read_entry = [&](std::string_view section, std::string_view name,
                                const toml::node& node) {
        const std::string inner = fmt::format("{}.{}", section, name);
        if (!node.is_table() || names_in(known, inner).empty())
            return read_value(section, name, node);
        for (const auto& [key, value] : *node.as_table()) read_value(inner, key.str(), value);
    };
    std::optional<softnic::FaultPolicy> faults;
    for (const auto& [key, node] : document.table()) {
        const std::string_view section = key.str();
        if (section == kFaultSection) {
            faults = read_faults(document, node);
            continue;
        }
        if (names_in(known, section).empty())
            document.refuse(node, fmt::format("unknown section [{}]", section),
                            advice(section, sections_of(known)));
        const bool is_list = std::find(lists.begin(), lists.end(), section) != lists.end();
        for (const toml::table* table : tables_of(document, section, node, is_list)) {
            if (is_list) begin(section, *table);
            for (const auto& [name, value] : *table) read_entry(section, name.str(), value);
        }
    }
    return faults;
}

}  // namespace verbatim
