// Keys of [objects].
#include "config_places.hpp"
#include "config_table.hpp"

namespace verbatim {

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
