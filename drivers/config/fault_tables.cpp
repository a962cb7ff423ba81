// Values become the words that fault policies are written in, so that one place knows them.
#include <verbatim/config/fault_tables.hpp>

#include <cstdint>
#include <string>

namespace verbatim {
namespace {

// Texts without quotes, lists with commas.
std::string in_words(const toml::node& node) {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    const toml::array* const list = node.as_array();
    if (list == nullptr) return as_written(node);
    std::string words;
    for (const toml::node& item : *list) words += (words.empty() ? "" : ",") + in_words(item);
    return words;
}

}  // namespace

softnic::FaultPolicy read_faults(const TomlDocument& document, const toml::node& node) {
    const toml::array* const list = node.as_array();
    const bool tables = list != nullptr && list->is_homogeneous(toml::node_type::table);
    if (!tables) document.refuse(node, "fault is a list of sections", "write [[fault]]");
    softnic::FaultPolicy policy;
    for (const toml::node& item : *list) {
        softnic::FaultRule rule;
        const toml::table& table = *item.as_table();
        if (!table.contains("action"))
            document.refuse(item, "[[fault]] has no action", "write action = \"drop\", for one");
        for (const auto& [name, value] : table)
            softnic::set(rule, name.str(), in_words(value), document.at(value));
        softnic::check(rule, document.at(item));
        policy.rules.push_back(rule);
    }
    return policy;
}

}  // namespace verbatim
