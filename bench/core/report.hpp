// The report: a table as text, and JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "results.hpp"

namespace verbatim::bench {

// What the columns are.
inline constexpr std::string_view kLegend =
    "Times are one way, in microseconds: half a round trip. `median` is p50; all samples are kept. "
    "Each figure is\n"
    "a median over the passes, `best` is the best pass. Latencies include writing every word of "
    "the message\n"
    "afresh and reading all of them; throughputs do not (the first and last word of each message "
    "are checked).\n"
    "fine: below 1 us the median of the means of 32 successive samples, as the counter may count "
    "in steps; else p50.\n"
    "x floor, x UCX: how many times slower than the floor and than the fastest UCX subject of the "
    "same pass, as\n"
    "a median over the passes; of `fine`, or of the rate.\n"
    "idle_N: a poll of a lane that finds nothing, with one busy and N idle connections. footprint: "
    "of a connection,\n"
    "both sides: private memory, memory files and page tables; slab is the kernel's, of the whole "
    "machine.\n"
    "wake: one wake-up of a reader that waits asleep, half of what two of them take.\n";

std::string table(std::span<const Row> rows);
// From which size on foreign memory is better registered than copied. Empty where that was not
// measured.
std::string crossovers(std::span<const Row> rows);
nlohmann::ordered_json rows_json(std::span<const Row> rows);

// One pass in the form of Google Benchmark's output, as scripts/bench reads it.
nlohmann::ordered_json google_json(std::span<const Row> rows);

// Whole or not at all: readers never see half a file. Throws std::runtime_error.
void write_file(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace verbatim::bench
