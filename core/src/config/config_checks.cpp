// Sections that contradict themselves, and named arenas that one name cannot tell apart.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "../arena/arena_memory.hpp"
#include "config_parts.hpp"
#include "config_table.hpp"

namespace verbatim {
namespace {

// One arena of a section, for messages.
struct CheckedArena {
    const TracedConfig& traced;
    std::string_view section;
    std::size_t item;
    const ArenaOptions& options;

    // The place of the first of these keys that something set; else the file's name.
    std::string place_of(std::initializer_list<std::string_view> names) const {
        const auto keys = config_keys();
        for (const std::string_view name : names)
            for (std::size_t i = 0; i < keys.size(); ++i)
                if (keys[i].section == section && keys[i].name == name)
                    if (const std::string place = traced.place(i, item); !place.empty())
                        return place;
        return traced.file;
    }
    [[noreturn]] void refuse(std::initializer_list<std::string_view> names,
                             const std::string& cause, const std::string& remedy) const {
        throw Error(Errc::config_error, place_of(names), fmt::format("[{}] {}", section, cause),
                    remedy);
    }
};

std::size_t page_bytes(PageChoice pages) {
    if (pages == PageChoice::huge_1g) return std::size_t{1} << 30;
    return pages == PageChoice::huge_2m ? std::size_t{2} << 20 : 4096;
}

void check_arena(const CheckedArena& arena) {
    const ArenaOptions& options = arena.options;
    if (options.segment_bytes > options.max_bytes)
        arena.refuse({"max_bytes", "segment_bytes"},
                     fmt::format("segment_bytes ({}) exceeds max_bytes ({})", options.segment_bytes,
                                 options.max_bytes),
                     "lower segment_bytes or raise max_bytes");
    if (options.max_bytes / options.segment_bytes > kMostSegments)
        arena.refuse({"max_bytes", "segment_bytes"},
                     fmt::format("max_bytes ({}) makes more than {} segments of {}",
                                 options.max_bytes, kMostSegments, options.segment_bytes),
                     "raise segment_bytes or lower max_bytes");
    if (options.initial_bytes > options.max_bytes)
        arena.refuse({"initial_bytes", "max_bytes"},
                     fmt::format("initial_bytes ({}) exceeds max_bytes ({})", options.initial_bytes,
                                 options.max_bytes),
                     "lower initial_bytes or raise max_bytes");
    if (options.segment_bytes < page_bytes(options.pages))
        arena.refuse({"segment_bytes", "pages"},
                     fmt::format("segment_bytes ({}) is less than one page ({})",
                                 options.segment_bytes, page_bytes(options.pages)),
                     "raise segment_bytes or choose smaller pages");
}

void check_name(const CheckedArena& arena) {
    const auto& all = arena.traced.config.named_arenas;
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(arena.item);
    const auto same = std::find_if(all.begin(), end, [&](const ArenaOptions& other) {
        return other.name == arena.options.name;
    });
    if (same == end) return;
    const CheckedArena first{arena.traced, arena.section,
                             static_cast<std::size_t>(same - all.begin()), *same};
    arena.refuse(
        {"name"},
        fmt::format("the name \"{}\" is taken, at {}", same->name, first.place_of({"name"})),
        "give each named arena a name of its own");
}

}  // namespace

void check_together(const TracedConfig& traced) {
    check_arena({traced, "arena", 0, traced.config.arena});
    check_arena({traced, "receive_arena", 0, traced.config.receive_arena});
    for (std::size_t i = 0; i < traced.config.named_arenas.size(); ++i) {
        const CheckedArena named{traced, "named_arena", i, traced.config.named_arenas[i]};
        check_name(named);
        check_arena(named);
    }
}

}  // namespace verbatim
