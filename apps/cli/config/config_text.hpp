// Forms of the configuration reference, all made from its table of keys: a file with the defaults,
// a page, help in a terminal, and the configuration in effect.
#pragma once

#include <string>
#include <string_view>

#include <verbatim/core/config_reference.hpp>

namespace cli {

// configs/verbatim.toml: every key with its default, and a comment.
std::string default_file();
// The configuration as TOML; comments say the lines and variables that set values.
std::string effective_file(const verbatim::TracedConfig& traced);
// docs/configuration.md.
std::string reference_page();
// Every key with its default and what is allowed.
std::string key_overview();
// A key ("ring.bytes", "VERBATIM_RING_BYTES") or a section. Throws Error(config_error): no such.
std::string explanation(std::string_view name);

// "[ring]", "[[poller]]".
std::string header_of(const verbatim::ConfigSection& section);
// The name of the first section that has a key of the same name and help; its own, if none before.
std::string_view first_section_of(const verbatim::ConfigKey& key);
// In lines of at most `width` letters, each behind `prefix`.
std::string wrapped(std::string_view text, std::string_view prefix, std::size_t width = 120);

}  // namespace cli
