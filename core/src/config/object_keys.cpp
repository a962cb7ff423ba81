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
    table.add("staging_bytes",
              size_access(member_at(&Config::objects, &Objects::staging_bytes), {4 * kKibi, kGibi}),
              "Registered buffer through which small objects and objects outside arenas are sent.");
    table.add("direct_bytes",
              size_access(member_at(&Config::objects, &Objects::direct_bytes), {0, kGibi}),
              "Arena blocks at least this long are written from where they lie, shorter ones "
              "through the buffer.");
    table.add("checksum", flag_access(member_at(&Config::objects, &Objects::checksum)),
              "Send and verify a checksum over all object bytes.");
    table.add("timeout",
              duration_access(member_at(&Config::objects, &Objects::timeout), 1ms, 1000s),
              "For a peer that stops in the middle of a transfer.");
}

}  // namespace verbatim
