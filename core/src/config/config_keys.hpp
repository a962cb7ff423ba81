// Every configuration key: where its value goes and what it may be. The one list behind the parser,
// its messages and the test that compares configs/verbatim.toml with the defaults.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <verbatim/core/config.hpp>

namespace verbatim {

// A value as the file has it.
using ConfigValue = std::variant<bool, std::int64_t, std::string>;

struct ConfigKey {
    std::string_view section, name;
    std::string_view allowed;  // for messages: "a size from 4K to 256M, a power of two"
    // False if the value is not allowed.
    std::function<bool(Config&, const ConfigValue&)> set;
};

std::span<const ConfigKey> config_keys();

}  // namespace verbatim
