// Keys of [telemetry] and [objects].
#include "config_places.hpp"
#include "config_table.hpp"

namespace verbatim {

void add_telemetry_keys(ConfigTable& table) {
    using namespace std::chrono_literals;
    using Telemetry = Config::TelemetrySection;
    table.begin("telemetry",
                "Counts of this process, in a file in shared memory that `verbatim stat` and "
                "`verbatim top` read (docs/telemetry.md).");
    table.add("enabled", flag_access(member_at(&Config::telemetry, &Telemetry::enabled)),
              "Count, and write the counts there.");
    table.add("interval",
              duration_access(member_at(&Config::telemetry, &Telemetry::interval), 1ms, 1000s),
              "How often a lane that polls writes its counts. A lane writes them before it sleeps, "
              "too.");
    table.add("histograms", flag_access(member_at(&Config::telemetry, &Telemetry::histograms)),
              "Measure operations from posting to completion, and handlers. Costs two looks at the "
              "clock for each that is measured.");
    table.add("directory", text_access(member_at(&Config::telemetry, &Telemetry::directory)),
              "Where the files are. Empty: $XDG_RUNTIME_DIR/verbatim, else "
              "/dev/shm/verbatim-<user>. Readers need the same.");
}

void add_object_keys(ConfigTable& table) {
    using namespace std::chrono_literals;
    using Objects = Config::ObjectsSection;
    table.begin("objects", "Object graphs on their way.");
    table.add("eager_bytes",
              size_access(member_at(&Config::objects, &Objects::eager_bytes), {0, 256 * kKibi}),
              "Graphs of at most so many bytes go in one message, if the ring has messages of that "
              "length; longer ones are written into memory that the receiver lends.");
    table.add("window_max",
              size_access(member_at(&Config::objects, &Objects::window_max), {256 * kKibi, kGibi}),
              "Longest window: what is lent at once to one connection, for a graph that comes in.");
    table.add("window_budget",
              size_access(member_at(&Config::objects, &Objects::window_budget),
                          {256 * kKibi, 1024 * kGibi}),
              "Most memory that all connections of the context lend for graphs that have not come "
              "in yet. The last max_graph_bytes of it are for the oldest such graph.");
    table.add("max_graph_bytes",
              size_access(member_at(&Config::objects, &Objects::max_graph_bytes),
                          {256 * kKibi, 32 * kGibi}),
              "Longest graph that is received. A sender of a longer one is told. A window_budget "
              "below it counts as equal.");
    table.add("window_wait",
              duration_access(member_at(&Config::objects, &Objects::window_wait), 1ms, 1000s),
              "How long a graph waits for room in the receive arena, which received graphs hold, "
              "before its sender is told that there is none.");
    table.add("hostile", flag_access(member_at(&Config::objects, &Objects::hostile)),
              "Copy graphs into private memory before they are looked at, so that a peer of the "
              "same user cannot change them after their check.");
    table.add("timeout",
              duration_access(member_at(&Config::objects, &Objects::timeout), 1ms, 1000s),
              "For a peer that stops in the middle of a transfer.");
}

}  // namespace verbatim
