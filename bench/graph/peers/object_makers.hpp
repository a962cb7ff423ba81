// What peers share: numbers for pointers, and making ordinary objects of what a message holds.
#pragma once

#include <array>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "../workloads/links.hpp"
#include "../workloads/maps.hpp"
#include "../workloads/sequences.hpp"

namespace bench_graph {

// Nodes of a cyclic graph as numbers, by a table, in the order in which a walk meets them. The
// first is the root's.
class NodeNumbers {
  public:
    // All nodes that the root leads to.
    const std::vector<const Node*>& walk(const Node& root) {
        nodes_.clear();
        table_.clear();
        meet(&root);
        for (std::size_t n = 0; n < nodes_.size(); ++n)
            for (const Node* next :
                 {nodes_[n]->first, nodes_[n]->second, nodes_[n]->third, nodes_[n]->fourth})
                meet(next);
        return nodes_;
    }
    // After walk(). No pointer of these graphs is null.
    std::uint32_t of(const Node* node) const { return table_.find(node)->second; }

  private:
    void meet(const Node* node) {
        if (table_.try_emplace(node, static_cast<std::uint32_t>(nodes_.size())).second)
            nodes_.push_back(node);
    }
    std::vector<const Node*> nodes_;
    boost::unordered_flat_map<const Node*, std::uint32_t> table_;
};

// A node as it travels.
struct NumberedNode {
    std::uint64_t value;
    std::array<std::uint32_t, 4> next;
};

// Objects for so many nodes; `take` returns the next as it travelled.
template <class Take>
Node* link_nodes(std::pmr::memory_resource& memory, std::size_t count, Take take) {
    auto* nodes = static_cast<Node*>(memory.allocate(count * sizeof(Node), alignof(Node)));
    for (std::size_t n = 0; n < count; ++n) {
        const NumberedNode from = take();
        for (const std::uint32_t next : from.next)
            if (next >= count) throw std::runtime_error("peer: a number is too large");
        ::new (nodes + n) Node{from.value, nodes + from.next[0], nodes + from.next[1],
                               nodes + from.next[2], nodes + from.next[3]};
    }
    return nodes;
}

// A list of so many nodes; `take` returns the next value.
template <class Take>
Link* link_list(std::pmr::memory_resource& memory, std::size_t count, Take take) {
    Link* first = nullptr;
    Link** last = &first;
    for (std::size_t n = 0; n < count; ++n) {
        *last = make_in(memory, Link{take(), nullptr});
        last = &(*last)->next;
    }
    return first;
}

// A cloud of so many points; `take` returns the next one.
template <class Take>
Cloud* make_points(std::pmr::memory_resource& memory, std::size_t count, Take take) {
    auto* cloud = make_in(memory, Cloud{std::pmr::vector<Point*>(&memory)});
    cloud->points.reserve(count);
    for (std::size_t n = 0; n < count; ++n) cloud->points.push_back(make_in(memory, take()));
    return cloud;
}

// A map; `insert(entries)` fills it.
template <class Map, class Insert>
MapRoot<Map>* make_map(std::pmr::memory_resource& memory, std::size_t count, Insert insert) {
    auto* root = make_in(memory, MapRoot<Map>{Map(&memory)});
    if constexpr (kHashed<Map>) root->entries.reserve(count);
    for (std::size_t n = 0; n < count; ++n) insert(root->entries);
    return root;
}

}  // namespace bench_graph
