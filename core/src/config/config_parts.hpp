// The steps from a file and the environment to a checked configuration. Each throws
// Error(config_error) with the place, the mistake and the remedy.
#pragma once

#include <string_view>

#include <verbatim/core/config_reference.hpp>

namespace verbatim {

// Reads TOML over the defaults; `name` is the file's, for messages.
TracedConfig read_toml(std::string_view toml, std::string_view name);

// Sets the keys that variables name: VERBATIM_<SECTION>_<KEY>. `environment` as the C library's
// environ. Refuses variables that begin as those of a section, but name none of its keys.
void apply_environment(TracedConfig& traced, const char* const* environment);

// Checks what no single key can tell.
void check_together(const TracedConfig& traced);

}  // namespace verbatim
