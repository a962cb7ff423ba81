// Pointers of the package graph as numbers, for peers without pointers. A package's number is its
// place in the graph's list, so only the few separately allocated objects need a table.
#pragma once

#include <cstdint>

#include <boost/unordered/unordered_flat_map.hpp>

#include "packages/graph.hpp"

namespace bench_graph {

// Sending side. 0 is the null pointer, other pointers are their place + 1.
class GraphNumbers {
  public:
    void number(const packages::Graph& graph) {
        first_ = graph.packages.data();
        table_.clear();
        enter(graph.maintainers);
        enter(graph.architectures);
    }
    std::uint32_t of(const packages::Package* package) const {
        return static_cast<std::uint32_t>(package - first_) + 1;  // never null in this graph
    }
    std::uint32_t of(const packages::Maintainer* maintainer) const { return find(maintainer); }
    std::uint32_t of(const packages::Architecture* architecture) const {
        return find(architecture);
    }

  private:
    template <class T>
    void enter(const packages::List<T*>& objects) {
        std::uint32_t place = 0;
        for (const T* object : objects) table_.emplace(object, ++place);
    }
    std::uint32_t find(const void* object) const {
        return object == nullptr ? 0 : table_.find(object)->second;
    }

    const packages::Package* first_ = nullptr;
    boost::unordered_flat_map<const void*, std::uint32_t> table_;
};

// Receiving side: the pointer for such a number.
template <class T>
T* pointer_of(std::uint32_t number, const packages::List<T*>& objects) {
    return number == 0 ? nullptr : objects[number - 1];
}
inline packages::Package* pointer_of(std::uint32_t number,
                                     packages::List<packages::Package>& packages) {
    return &packages[number - 1];
}

}  // namespace bench_graph
