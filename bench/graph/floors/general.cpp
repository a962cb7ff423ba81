// floor: the general floor of each workload. memcpy: copying its image once.
#include "general.hpp"

#include "../workloads/all.hpp"

namespace bench_graph {

void add_general_floors() {
    for_each_graph([]<class W>(const W& workload) {
        add_subject(workload.name, "floor",
                    [=] { return std::make_unique<GeneralFloor<W>>(workload); });
        add_subject(workload.name, "memcpy",
                    [=] { return std::make_unique<ImageCopy<W>>(workload); });
    });
    for_each_cold([]<class W>(const W& workload) {
        add_subject(
            workload.name, "floor", [=] { return std::make_unique<GeneralFloor<W>>(workload); },
            Measure::cold);
    });
}

}  // namespace bench_graph
