// The packages case: this machine's package database, repeated to 50,000 packages.
#pragma once

#include <memory>
#include <memory_resource>

#include "packages/graph.hpp"
#include "subject.hpp"
#include "warm_memory.hpp"

namespace bench_graph {

inline constexpr const char* kPackagesCase = "packages";

// Builds the graph in `memory`.
packages::Graph* make_package_graph(std::pmr::memory_resource& memory);
// The memory that takes, every allocation rounded up to the granule of an arena.
std::size_t package_graph_bytes();

// What identifies a graph; see packages::Checksum.
struct GraphSum {
    std::uint64_t sum;
    std::uint64_t objects;
};
GraphSum sum_of(const packages::Graph& graph);

// The sending side of floors and peers: one block that holds the graph and nothing else.
class PackagesSubject : public Subject {
  public:
    std::uint64_t objects() const override { return expected_.objects; }

  protected:
    const packages::Graph& sent() const noexcept { return *graph_; }
    const WarmMemory& source() const noexcept { return source_; }
    bool equals_sent(const packages::Graph& received) const {
        return sum_of(received).sum == expected_.sum;
    }

  private:
    WarmMemory source_{package_graph_bytes()};
    packages::Graph* graph_ = make_package_graph(source_);
    GraphSum expected_ = sum_of(*graph_);
};

}  // namespace bench_graph
