// The reference page, in Markdown.
#include <fmt/format.h>

#include "config_text.hpp"

namespace cli {
namespace {

using verbatim::ConfigKey;
using verbatim::ConfigSection;

constexpr std::string_view kPageBeginning = R"(# Configuration

<!-- Made by `verbatim config --markdown` from the table of keys (core/src/config/); do not edit. -->

A program's settings are one TOML file. Every key has a default, and a file needs only the keys that it changes.
Unknown keys and values out of range are refused, with file, line and remedy.
[configs/verbatim.toml](../configs/verbatim.toml) has every key with its default.

| later ones win | read by |
|---|---|
| the defaults | `Config{}` and all below |
| the file that `VERBATIM_CONFIG` names, else `./verbatim.toml` if it exists | `Config::found()`, `Context()` |
| a file that the program names | `Config::from_file(path)` |
| variables of the environment | `Config::found()`, `Config::from_file()`; not `Config::from_text()` |

Sizes are a number of bytes, or a text with K, M, G or T (powers of 1024). Durations are texts: `"20us"`, `"5ms"`,
`"1s"`.

## Commands

| command | effect |
|---|---|
| `verbatim config` | prints the configuration in effect as TOML; comments name the lines and variables that set values |
| `verbatim config KEY` | explains a key (`ring.bytes`), a section or a variable |
| `verbatim config --help` | lists all keys |
| `verbatim config --check FILE` | reads a file alone, without the environment, and says its first mistake or "ok" |
| `verbatim config --toml` | prints a file with all keys and their defaults |
| `verbatim config --markdown` | prints this page |

## Environment

`VERBATIM_<SECTION>_<KEY>` sets a key after the file: `VERBATIM_DEVICE_KIND=softnic`, `VERBATIM_RING_BYTES=64K`. Texts
have no quotes. A value that is not allowed is an error, also an empty one where the key is no free text. A variable that
begins as those of a section, but names no key of it, is an error too. Sections of lists (`[[poller]]`,
`[[named_arena]]`, `[[fault]]`) have no variables.

Programs that set members of `Config` themselves do so last. `verbatim/core/config_reference.hpp` gives them the table of
keys, and the place of each value (`TracedConfig`).

## Examples

| file | for |
|---|---|
| [laptop.toml](../configs/laptop.toml) | little memory, and cores left to other programs |
| [latency.toml](../configs/latency.toml) | short ways between processes with a core each |
| [throughput.toml](../configs/throughput.toml) | streams of large messages and graphs |
| [many-connections.toml](../configs/many-connections.toml) | thousands of connections, most of them idle |
| [server.toml](../configs/server.toml) | a server on pollers, with an arena of its own |
| [dpdk.toml](../configs/dpdk.toml) | the software NIC through a DPDK device |
| [dedicated.toml](../configs/dedicated.toml) | a loop on a core of its own |
)";

std::string in_cell(std::string_view text) {
    std::string all;
    for (const char letter : text)
        all += letter == '|' ? std::string("\\|") : std::string(1, letter);
    return all;
}

std::string as_code(std::string_view text) { return "`" + in_cell(text) + "`"; }

std::string row_of(const ConfigKey& key) {
    const std::string_view first = first_section_of(key);
    const std::string meaning = first == key.section ? key.help : fmt::format("As in [{}].", first);
    return fmt::format(
        "| `{}` | {} | {} | {} |\n", key.name,
        key.default_value.empty() ? "none: it must be given" : as_code(key.default_value),
        in_cell(key.allowed), in_cell(meaning));
}

std::string page_section(const ConfigSection& section) {
    std::string all = fmt::format("\n## {}\n\n{}\n\n", header_of(section), section.help);
    all += "| key | default | allowed | meaning |\n|---|---|---|---|\n";
    for (const ConfigKey& key : verbatim::config_keys())
        if (key.section == section.name) all += row_of(key);
    return all;
}

constexpr std::string_view kPageEnd = R"(
## [[fault]]

The software NIC makes operations fail on purpose: [the software NIC](softnic.md), "Faults", has the keys of a rule.
)";

}  // namespace

std::string reference_page() {
    std::string all(kPageBeginning);
    for (const ConfigSection& section : verbatim::config_sections()) all += page_section(section);
    return all.append(kPageEnd);
}

}  // namespace cli
