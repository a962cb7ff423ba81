// Memory of a connection, both sides together.
#include <unistd.h>

#include <array>
#include <vector>

#include "../workloads.hpp"
#include "many.hpp"
#include "memory.hpp"

namespace verbatim::bench {
namespace {

enum class Use : std::uint8_t { none, few, all_of_ring };

constexpr unsigned kFew = 8;
constexpr std::size_t kLong = 16384;

struct Load {
    std::size_t bytes;
    std::uint64_t rounds;
};
Load load_of(Use use, const Case& of) {
    if (use == Use::all_of_ring) return {kLong, 2 * Config().ring.bytes / kLong};
    return {of.bytes, use == Use::few ? kFew : 0};
}

// Messages to and fro over each connection.
void use_all(Side& side, Many& many, const Load& load) {
    std::vector<std::byte> bytes(load.bytes);
    for (std::size_t i = 1; i < many.size(); ++i)
        for (std::uint64_t round = 0; round < load.rounds; ++round) {
            if (side.first()) many.send(i, bytes);
            (void)many.receive();
            if (!side.first()) many.send(i, bytes);
        }
    many.meet();
}

void report(Side& side, const MemoryCount& before, const MemoryCount& after, double connections) {
    const auto each = [&](std::size_t index, double a, double b) {
        side.report_amount(index, (b - a) / connections);
    };
    each(0, before.all(), after.all());
    each(1, before.files, after.files);
    each(2, before.tables, after.tables);
    each(3, before.slab, after.slab);
    each(4, before.descriptors, after.descriptors);
    each(5, before.mappings, after.mappings);
}

// The first connections are not counted: with them came what all others share, as the pages of the
// program's code.
constexpr unsigned kUncounted = 32;

template <Use use>
void footprint(Side& side, const Case& of) {
    Many many(side);
    const std::array<pid_t, 2> both{getpid(), std::stoi(side.exchange(std::to_string(getpid())))};
    many.add(kUncounted);
    use_all(side, many, load_of(use, of));
    MemoryCount before;
    if (side.first()) before = count_memory(both);
    many.add(of.connections);
    use_all(side, many, load_of(use, of));
    if (side.first()) report(side, before, count_memory(both), of.connections);
    many.meet();
    many.check();
    many.meet();
}

}  // namespace

void add_footprints(Subjects& all) {
    add(all, "verbatim.idle", footprint<Use::none>, {&kFootprint});
    add(all, "verbatim.used", footprint<Use::few>, {&kFootprint});
    add(all, "verbatim.wrapped", footprint<Use::all_of_ring>, {&kFootprint});
}

}  // namespace verbatim::bench
