// Each setting and the environment variable that it becomes.
#include "softnic_config.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <toml++/toml.h>

#include <verbatim/config/settings.hpp>
#include <verbatim/config/toml_document.hpp>
#include <verbatim/driver/quantity.hpp>
#include <verbatim/softnic/fault_policy.hpp>
#include <verbatim/softnic/packet_faults.hpp>
#include <verbatim/uverbs/device_tree.hpp>

namespace cli {
namespace {

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

Converted packet_faults(const toml::node& node) {
    auto text = node.value_exact<std::string>();
    return text && softnic::are_packet_faults(*text) ? text : std::nullopt;
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
constexpr std::array<Key, 8> kKeys{{
    {"devices", "count", "a number from 1 to 16", DeviceTree::kDevicesVariable, count_of_devices},
    {"devices", "mtu", DeviceTree::kAllowedMtus, DeviceTree::kMtuVariable, mtu},
    {"engine", "ring_bytes", DeviceTree::kAllowedRings, DeviceTree::kRingVariable, ring_bytes},
    {"engine", "doorbells", R"("trap" or "nap")", DeviceTree::kDoorbellsVariable, doorbells},
    {"memory", "share", "true or false", DeviceTree::kShareVariable, yes_or_no},
    {"connections", "timeout", R"(a duration from "1ms" to "1000s", whole milliseconds)",
     DeviceTree::kTimeoutVariable, timeout},
    {"packets", "faults", softnic::kPacketFaultsAllowed, DeviceTree::kPacketFaultsVariable,
     packet_faults},
    {"log", "level", R"("error", "warn", "info" or "debug")", "VERBATIM_LOG", log_level},
}};

std::vector<verbatim::Setting> known_settings() {
    std::vector<verbatim::Setting> known;
    for (const Key& key : kKeys) known.push_back({key.section, key.name, key.allowed});
    return known;
}

}  // namespace

SoftnicConfig SoftnicConfig::from_text(std::string_view toml, const std::string& name) {
    const verbatim::TomlDocument document(toml, name, "configs/softnic.toml");
    SoftnicConfig config;
    const auto store = [&](std::size_t index, const toml::node& node) {
        const Key& key = kKeys[index];
        const Converted value = key.convert(node);
        if (value && key.convert == count_of_devices)
            config.devices = std::stoi(*value);
        else if (value)
            config.environment.emplace_back(key.variable, *value);
        return value.has_value();
    };
    if (const auto faults = verbatim::read_settings(document, known_settings(), store))
        config.environment.emplace_back(DeviceTree::kFaultsVariable, softnic::to_text(*faults));
    return config;
}

SoftnicConfig SoftnicConfig::from_file(const std::string& path) {
    const std::string text =
        verbatim::TomlDocument::read_file(path, "check the path and its permissions");
    return from_text(text, path);
}

}  // namespace cli
