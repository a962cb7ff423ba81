// Reads the file, and refuses what it does not know.
#include "softnic_config.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <verbatim/config/fault_tables.hpp>
#include <verbatim/config/toml_document.hpp>
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
    if (!bytes || !DeviceTree::allows_ring(*bytes)) return std::nullopt;
    return std::to_string(*bytes);
}

Converted mtu(const toml::node& node) {
    const auto bytes = node.value_exact<std::int64_t>();
    if (!bytes || !DeviceTree::allows_mtu(*bytes)) return std::nullopt;
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

Converted yes_or_no(const toml::node& node) {
    const auto wanted = node.value_exact<bool>();
    if (!wanted) return std::nullopt;
    return *wanted ? "1" : "0";
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
constexpr std::array<Key, 7> kKeys{{
    {"devices", "count", "a number from 1 to 16", DeviceTree::kDevicesVariable, count_of_devices},
    {"devices", "mtu", DeviceTree::kAllowedMtus, DeviceTree::kMtuVariable, mtu},
    {"engine", "ring_bytes", DeviceTree::kAllowedRings, DeviceTree::kRingVariable, ring_bytes},
    {"engine", "doorbells", R"("trap" or "nap")", DeviceTree::kDoorbellsVariable, doorbells},
    {"memory", "share", "true or false", DeviceTree::kShareVariable, yes_or_no},
    {"connections", "timeout", R"(a duration from "1ms" to "1000s", whole milliseconds)",
     DeviceTree::kTimeoutVariable, timeout},
    {"log", "level", R"("error", "warn", "info" or "debug")", "VERBATIM_LOG", log_level},
}};
class Reader {
  public:
    Reader(std::string_view toml, std::string_view name)
        : document_(toml, name, "configs/softnic.toml") {}

    SoftnicConfig read() {
        for (const auto& [section, node] : document_.table()) {
            if (section.str() == verbatim::kFaultSection)
                config_.environment.emplace_back(
                    DeviceTree::kFaultsVariable,
                    softnic::to_text(verbatim::read_faults(document_, node)));
            else
                read_section(section.str(), node);
        }
        return config_;
    }

  private:
    [[noreturn]] void refuse(const toml::node& node, const std::string& cause,
                             const std::string& remedy) const {
        document_.refuse(node, cause, remedy);
    }

    void read_section(std::string_view section, const toml::node& node) {
        std::vector<std::string_view> known;
        for (const Key& key : kKeys)
            if (key.section == section) known.push_back(key.name);
        if (known.empty()) {
            for (const Key& key : kKeys)
                if (known.empty() || known.back() != key.section) known.push_back(key.section);
            known.push_back(verbatim::kFaultSection);
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
                   fmt::format("{} = {} in [{}] is not allowed", name, verbatim::as_written(node),
                               section),
                   fmt::format("it must be {}", key->allowed));
        if (key->convert == count_of_devices)
            config_.devices = std::stoi(*value);
        else
            config_.environment.emplace_back(key->variable, *value);
    }

    verbatim::TomlDocument document_;
    SoftnicConfig config_;
};

}  // namespace

SoftnicConfig SoftnicConfig::from_text(std::string_view toml, const std::string& name) {
    return Reader(toml, name).read();
}

SoftnicConfig SoftnicConfig::from_file(const std::string& path) {
    const std::string text =
        verbatim::TomlDocument::read_file(path, "check the path and its permissions");
    return from_text(text, path);
}

}  // namespace cli
