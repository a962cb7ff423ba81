// Keys of the arenas, which [arena], [receive_arena] and [[named_arena]] share, and of [foreign].
#include "config_places.hpp"
#include "config_table.hpp"

namespace verbatim {
namespace {

using ArenaKeys = ArenaOptions;

// `section`: a member of Config, of one arena or of a list.
template <class Member>
void add_sizes(ConfigTable& table, Member section) {
    table.add("segment_bytes",
              size_access(member_at(section, &ArenaKeys::segment_bytes),
                          {4 * kKibi, 64 * kGibi, Shape::power_of_two}),
              "Growth step. Each step is registered with the device as one memory region.");
    table.add("max_bytes",
              size_access(member_at(section, &ArenaKeys::max_bytes), {4 * kKibi, 64 * kTebi}),
              "Addresses reserved; memory is used only as the arena grows.");
    table.add("initial_bytes",
              size_access(member_at(section, &ArenaKeys::initial_bytes), {0, 64 * kTebi}),
              "Populated at start, so that the first messages do not wait for page faults.");
}

template <class Member>
void add_pages(ConfigTable& table, Member section) {
    table.add("pages",
              word_access(member_at(section, &ArenaKeys::pages), {{"auto", PageChoice::automatic},
                                                                  {"4K", PageChoice::base_4k},
                                                                  {"2M", PageChoice::huge_2m},
                                                                  {"1G", PageChoice::huge_1g}}),
              "\"auto\": 2 MiB pages where the machine has reserved enough, else 4 KiB pages and "
              "one warning that says how to reserve them. \"4K\", \"2M\", \"1G\": those, or an "
              "error.");
    table.add("lock_memory", flag_access(member_at(section, &ArenaKeys::lock_memory)),
              "Lock segments into memory; needs memlock (ulimit -l). Registered memory of RDMA "
              "devices is pinned anyway.");
    table.add("numa_node", number_access(member_at(section, &ArenaKeys::numa_node), {-1, 1023}),
              "NUMA node the memory must come from. -1: the kernel chooses.");
}

std::size_t count_named(const Config& config) { return config.named_arenas.size(); }
void append_named(Config& config) { config.named_arenas.push_back({.name = ""}); }

void add_foreign_keys(ConfigTable& table) {
    using Foreign = RegistrationOptions;
    table.begin("foreign",
                "Memory outside of arenas that a RegistrationCache registers "
                "(docs/foreign-memory.md).");
    table.add(
        "max_bytes",
        size_access(member_at(&Config::foreign, &Foreign::max_bytes), {4 * kKibi, 64 * kTebi}),
        "Registered at the same time, in flight and kept.");
    table.add("max_entries",
              number_access(member_at(&Config::foreign, &Foreign::max_entries), {1, 65536}),
              "Pieces that are registered at the same time.");
    table.add("copy_below",
              size_access(member_at(&Config::foreign, &Foreign::copy_below), {0, kGibi}),
              "Fewer bytes than these are copied, not registered, by layers that may choose. 0: "
              "measured at the first use.");
    table.add("watch", flag_access(member_at(&Config::foreign, &Foreign::watch)),
              "Keep registrations for the next use, and watch the memory by a userfaultfd. false: "
              "register for each use.");
}

}  // namespace

void add_arena_keys(ConfigTable& table) {
    table.begin("arena", "Memory for objects that are sent from where they lie.");
    add_sizes(table, &Config::arena);
    add_pages(table, &Config::arena);
    table.begin("receive_arena", "Memory that peers write into: received objects.");
    add_sizes(table, &Config::receive_arena);
    add_pages(table, &Config::receive_arena);
    table.begin_list("named_arena", {count_named, append_named},
                     "Further arenas, which a program finds by their names "
                     "(Context::arena(name)). There are none unless written here.");
    table.add("name", name_access(member_at(&Config::named_arenas, &ArenaKeys::name)),
              "Name of the arena, in the program and in messages. No two have the same.");
    add_sizes(table, &Config::named_arenas);
    add_pages(table, &Config::named_arenas);
    add_foreign_keys(table);
}

}  // namespace verbatim
