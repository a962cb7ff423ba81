// Reads the file, and refuses what it does not know.
#include "softnic_config.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <verbatim/driver/advice.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/driver/quantity.hpp>
#include <verbatim/softnic/fault_policy.hpp>
#include <verbatim/uverbs/device_tree.hpp>

namespace cli {
namespace {

using verbatim::Errc;
using verbatim::Error;
using verbatim::uverbs::DeviceTree;
namespace softnic = verbatim::softnic;

// A value as its environment variable has it; none: it is not allowed.
using Converted = std::optional<std::string>;

Converted count_of_devices(const toml::node& node) {
    const auto count = node.value_exact<std::int64_t>();
    if (!count || *count < 1 || *count > DeviceTree::kMaxDevices) return std::nullopt;
    return std::to_string(*count);
}

Converted ring_bytes(const toml::node& node) {
    auto bytes = node.value_exact<std::int64_t>();
    if (const auto text = node.value_exact<std::string>()) bytes = verbatim::parse_size(*text);
    if (!bytes || *bytes < DeviceTree::kLeastRing || *bytes > DeviceTree::kMostRing ||
        !std::has_single_bit(static_cast<std::uint64_t>(*bytes)))
        return std::nullopt;
    return std::to_string(*bytes);
}

Converted doorbells(const toml::node& node) {
    auto text = node.value_exact<std::string>();
    return text == "trap" || text == "nap" ? text : std::nullopt;
}

Converted timeout(const toml::node& node) {
    using namespace std::chrono_literals;
    const auto text = node.value_exact<std::string>();
    const auto time = text ? verbatim::parse_duration(*text) : std::nullopt;
    if (!time || *time < 1ms || *time > 1000s || *time % 1ms != 0ns) return std::nullopt;
    return std::to_string(*time / 1ms);
}

Converted log_level(const toml::node& node) {
    constexpr std::array<std::string_view, 4> kLevels{"error", "warn", "info", "debug"};
    auto text = node.value_exact<std::string>();
    const bool known = text && std::find(kLevels.begin(), kLevels.end(), *text) != kLevels.end();
    return known ? text : std::nullopt;
}

struct Key {
    std::string_view section, name, allowed;
    const char* variable;
    Converted (*convert)(const toml::node&);
};
constexpr std::array<Key, 5> kKeys{{
    {"devices", "count", "a number from 1 to 16", DeviceTree::kDevicesVariable, count_of_devices},
    {"engine", "ring_bytes", "a size from 16K to 1G, a power of two", DeviceTree::kRingVariable,
     ring_bytes},
    {"engine", "doorbells", R"("trap" or "nap")", DeviceTree::kDoorbellsVariable, doorbells},
    {"connections", "timeout", R"(a duration from "1ms" to "1000s", whole milliseconds)",
     DeviceTree::kTimeoutVariable, timeout},
    {"log", "level", R"("error", "warn", "info" or "debug")", "VERBATIM_LOG", log_level},
}};
constexpr std::string_view kFault = "fault";

std::string as_written(const toml::node& node) {
    std::ostringstream out;
    node.visit([&](const auto& concrete) { out << concrete; });
    return out.str();
}

// As the words of a policy have it: texts without quotes, lists with commas.
std::string in_words(const toml::node& node) {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    const toml::array* const list = node.as_array();
    if (list == nullptr) return as_written(node);
    std::string words;
    for (const toml::node& item : *list) words += (words.empty() ? "" : ",") + in_words(item);
    return words;
}

class Reader {
  public:
    Reader(std::string_view toml, std::string name) : name_(std::move(name)) {
        try {
            table_ = toml::parse(toml, name_);
        } catch (const toml::parse_error& error) {
            throw Error(Errc::config_error, at(error.source()), std::string(error.description()),
                        "see configs/softnic.toml for the form");
        }
    }

    SoftnicConfig read() {
        for (const auto& [section, node] : table_) {
            if (section.str() == kFault)
                read_faults(node);
            else
                read_section(section.str(), node);
        }
        return config_;
    }

  private:
    std::string at(const toml::source_region& where) const {
        return fmt::format("{}:{}", name_, where.begin.line);
    }
    [[noreturn]] void refuse(const toml::node& node, const std::string& cause,
                             const std::string& remedy) const {
        throw Error(Errc::config_error, at(node.source()), cause, remedy);
    }

    void read_section(std::string_view section, const toml::node& node) {
        std::vector<std::string_view> known;
        for (const Key& key : kKeys)
            if (key.section == section) known.push_back(key.name);
        if (known.empty()) {
            for (const Key& key : kKeys)
                if (known.empty() || known.back() != key.section) known.push_back(key.section);
            known.push_back(kFault);
            refuse(node, fmt::format("unknown section [{}]", section),
                   verbatim::advice(section, known));
        }
        const toml::table* const table = node.as_table();
        if (table == nullptr)
            refuse(node, fmt::format("{} is a section", section),
                   fmt::format("write [{}]", section));
        for (const auto& [name, value] : *table) read_key(section, name.str(), value, known);
    }

    void read_key(std::string_view section, std::string_view name, const toml::node& node,
                  const std::vector<std::string_view>& known) {
        const auto* const key = std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& k) {
            return k.section == section && k.name == name;
        });
        if (key == kKeys.end())
            refuse(node, fmt::format("unknown key {} in [{}]", name, section),
                   verbatim::advice(name, known));
        const Converted value = key->convert(node);
        if (!value)
            refuse(node,
                   fmt::format("{} = {} in [{}] is not allowed", name, as_written(node), section),
                   fmt::format("it must be {}", key->allowed));
        if (key->convert == count_of_devices)
            config_.devices = std::stoi(*value);
        else
            config_.environment.emplace_back(key->variable, *value);
    }

    void read_faults(const toml::node& node) {
        const toml::array* const list = node.as_array();
        const bool tables = list != nullptr && list->is_homogeneous(toml::node_type::table);
        if (!tables) refuse(node, "fault is a list of sections", "write [[fault]]");
        softnic::FaultPolicy policy;
        for (const toml::node& item : *list) {
            softnic::FaultRule rule;
            const toml::table& table = *item.as_table();
            if (!table.contains("action"))
                refuse(item, "[[fault]] has no action", "write action = \"drop\", for one");
            for (const auto& [name, value] : table)
                softnic::set(rule, name.str(), in_words(value), at(value.source()));
            softnic::check(rule, at(item.source()));
            policy.rules.push_back(rule);
        }
        config_.environment.emplace_back(DeviceTree::kFaultsVariable, softnic::to_text(policy));
    }

    std::string name_;
    toml::table table_;
    SoftnicConfig config_;
};

}  // namespace

SoftnicConfig SoftnicConfig::from_text(std::string_view toml, const std::string& name) {
    return Reader(toml, name).read();
}

SoftnicConfig SoftnicConfig::from_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file.is_open() || file.bad())
        throw Error(Errc::config_error, path, "cannot read this configuration file",
                    "check the path and its permissions");
    return from_text(text, path);
}

}  // namespace cli
