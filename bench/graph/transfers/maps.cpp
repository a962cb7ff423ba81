// verbatim.arena of maps: a source of its own, for libraries that send maps.
#include "../workloads/maps.hpp"
#include "graph_transfer.hpp"

namespace bench_graph {

void add_map_transfers() {
    for_each_map([](const auto& workload) { add_graph_transfer(workload); });
}

}  // namespace bench_graph
