// verbatim.arena: the objects lie in the sender's arena. verbatim.heap: on the ordinary heap.
// verbatim.acyclic: sent as acyclic. verbatim.hostile: received with [objects] hostile. Cases
// sides_*: each side by itself, and wire bytes (Naos, ATC'21, Table 3).
#include "../floors/general.hpp"
#include "../workloads/all.hpp"
#include "graph_transfer.hpp"

namespace bench_graph {
namespace {

template <class W>
void add_sides(const W& workload) {
    add_graph_transfer(workload, Measure::sides);
    add_subject(
        workload.name, "floor", [=] { return std::make_unique<GeneralFloor<W>>(workload, true); },
        Measure::sides);
}

}  // namespace

void add_graph_transfers() {
    for_each_graph([](const auto& workload) { add_graph_transfer(workload); });
    for_each_cold([](const auto& workload) { add_graph_transfer(workload, Measure::cold); });
    add_styled_transfer(Points{{"points_2^20"}}, "verbatim.acyclic", {.acyclic = true});
    add_styled_transfer(Pairs{{"pairs_2^20"}}, "verbatim.acyclic", {.acyclic = true});
    constexpr Style kHostile{.hostile = true};
    add_styled_transfer(Points{{"points_2^20"}}, "verbatim.hostile", kHostile);
    add_styled_transfer(List{{"list_10^6"}}, "verbatim.hostile", kHostile);
    add_styled_transfer(Cyclic{{"cyclic_100k"}}, "verbatim.hostile", kHostile);
    add_styled_transfer(Meshes<Mesh>{{"mesh_2^16"}}, "verbatim.hostile", kHostile);
    add_sides(Points{{"sides_points_2^20"}});
    add_sides(Pairs{{"sides_pairs_2^20"}});
    add_sides(Cyclic{{"sides_cyclic_100k"}});
}

}  // namespace bench_graph
