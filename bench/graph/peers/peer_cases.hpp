// The cases in which peers take part.
#pragma once

#include "../workloads/all.hpp"
#include "../workloads/maps.hpp"

namespace bench_graph {

template <class Visit>
void for_each_peer_case(Visit visit) {
    for_each_sequence([&]<class W>(const W& workload) {
        if constexpr (std::is_same_v<W, Points>) visit(workload);
    });
    for_each_linked(visit);
    for_each_map(visit);
}

}  // namespace bench_graph
