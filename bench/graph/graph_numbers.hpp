// What a peer without pointers needs on both sides of the package graph: numbers for the objects
// that more than one pointer leads to, and making pointers of numbers again.
//
// Packages and maintainers are numbered as they stand in the graph's lists, versions and
// requirements in the order in which a walk over packages and versions meets them.
#pragma once

#include <cstdint>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "packages/graph.hpp"

namespace bench_graph {

// Sending side. One open-addressing table for all types: the fastest way without changing the
// objects.
class GraphNumbers {
  public:
    void number(const packages::Graph& graph) {
        numbers_.clear();
        std::uint32_t package = 0, maintainer = 0, version = 0, requirement = 0;
        for (const auto* each : graph.packages) numbers_.emplace(each, package++);
        for (const auto* each : graph.maintainers) numbers_.emplace(each, maintainer++);
        for (const auto* owner : graph.packages)
            for (const auto* each : owner->versions) {
                numbers_.emplace(each, version++);
                for (const auto* part : each->requirements) numbers_.emplace(part, requirement++);
            }
    }
    std::uint32_t of(const void* object) const { return numbers_.find(object)->second; }

  private:
    boost::unordered_flat_map<const void*, std::uint32_t> numbers_;
};

// Receiving side: the objects made so far, by number.
struct GraphTables {
    std::vector<packages::Version*> versions;
    std::vector<packages::Requirement*> requirements;

    void clear() {
        versions.clear();
        requirements.clear();
    }
};

}  // namespace bench_graph
