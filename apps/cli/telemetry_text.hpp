// The forms in which telemetry is printed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <verbatim/core/telemetry.hpp>

namespace cli {

using Processes = std::vector<verbatim::telemetry::Process>;

// For programs.
std::string to_json(const Processes& processes);
// Prometheus' text exposition format 0.0.4.
std::string to_prometheus(const Processes& processes);
// For people. `before`: what was read `seconds` ago, for rates; empty: totals alone.
std::string to_table(const Processes& processes, const Processes& before = {}, double seconds = 0);

// Bytes on the wire for each byte of messages that was sent, without padding; 0: none was sent
// (docs/telemetry.md, "Wire overhead").
double wire_overhead(const verbatim::telemetry::ConnectionCounts& counts) noexcept;

inline constexpr const char* kPortCounters = "/sys/class/infiniband";

}  // namespace cli
