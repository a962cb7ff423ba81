// verbatim.arena: the objects lie in the sender's arena. verbatim.heap: on the ordinary heap.
#include "../workloads/all.hpp"
#include "graph_transfer.hpp"

namespace bench_graph {

void add_graph_transfers() {
    for_each_graph([](const auto& workload) { add_graph_transfer(workload); });
    for_each_cold([](const auto& workload) { add_graph_transfer(workload, Measure::cold); });
}

}  // namespace bench_graph
