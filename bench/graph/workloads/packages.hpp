// The package graph: this machine's package database, repeated to 50,000 packages.
#pragma once

#include <tuple>

#include <verbatim/objects/describe/composed_marking.hpp>

#include "packages/graph.hpp"
#include "workload.hpp"

namespace bench_graph {

struct Packages : Workload {
    using Root = packages::Graph;
    using Targets = std::tuple<packages::Package, packages::Maintainer, packages::Architecture>;

    std::uint64_t objects() const;
    // Every allocation rounded up to the granule of an arena.
    std::size_t bytes() const;
    packages::Graph* make(std::pmr::memory_resource& memory) const;
};

// Each peer of the package graph takes part in both cases.
inline const Packages kPackages[] = {{{"packages", Place::arena}},
                                     {{"packages_heap", Place::heap}}};

}  // namespace bench_graph

VERBATIM_COMPOSED(packages::Graph);
