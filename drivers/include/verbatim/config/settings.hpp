// The settings of a configuration file: [sections] of keys with single values, lists of
// [[sections]] that occur once for each thing, and [[fault]]. Threads: one.
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

// One more table of a list of sections begins; the values that follow are its own.
using BeginTable = std::function<void(std::string_view section, const toml::node& table)>;

// Reads the whole document: hands out each value, returns the faults if there are any. `known`: in
// the order of sections; `lists`: the sections that are lists. Throws Error(config_error) for what
// is unknown or not allowed, with what is.
std::optional<softnic::FaultPolicy> read_settings(const TomlDocument& document,
                                                  std::span<const Setting> known,
                                                  const StoreSetting& store,
                                                  std::span<const std::string_view> lists = {},
                                                  const BeginTable& begin = nullptr);

}  // namespace verbatim
