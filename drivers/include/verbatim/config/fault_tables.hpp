// The [[fault]] sections of a configuration file have the same form in each file.
#pragma once

#include <string_view>

#include <verbatim/config/toml_document.hpp>
#include <verbatim/softnic/fault_policy.hpp>

namespace verbatim {

inline constexpr std::string_view kFaultSection = "fault";

// `node` is the file's value of that name. Throws Error(config_error) with file, line and remedy.
softnic::FaultPolicy read_faults(const TomlDocument& document, const toml::node& node);

}  // namespace verbatim
