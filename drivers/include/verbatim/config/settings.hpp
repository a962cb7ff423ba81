// The settings of a configuration file: [sections] of keys with single values, and [[fault]].
// Threads: one.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include <verbatim/config/fault_tables.hpp>
#include <verbatim/config/toml_document.hpp>
#include <verbatim/softnic/fault_policy.hpp>

namespace verbatim {

struct Setting {
    std::string_view section, name;
    std::string_view allowed;  // for messages: "a number from 1 to 16"
};

// Stores the value of the setting with that index. False: the value is not allowed.
using StoreSetting = std::function<bool(std::size_t index, const toml::node& value)>;

// Reads the whole document: hands out each value, returns the faults if there are any. `known`: in
// the order of sections. Throws Error(config_error) for what is unknown or not allowed, with what
// is.
std::optional<softnic::FaultPolicy> read_settings(const TomlDocument& document,
                                                  std::span<const Setting> known,
                                                  const StoreSetting& store);

}  // namespace verbatim
