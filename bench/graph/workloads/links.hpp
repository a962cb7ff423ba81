// Objects that lead to each other by raw pointers of their own: a list, a tree, a cyclic graph.
#pragma once

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include <verbatim/objects/describe/composed_marking.hpp>

#include "workload.hpp"

namespace bench_graph {

struct Link {
    std::uint64_t value = 0;
    Link* next = nullptr;
};

// In the order of allocation, or in a random one.
struct List : Workload {
    using Root = Link;
    using Targets = std::tuple<Link>;
    Order order = Order::allocation;
    std::size_t count = 1'000'000;

    std::uint64_t objects() const { return count; }
    std::size_t bytes() const { return count * sizeof(Link) + 4096; }
    Link* make(auto& memory) const {
        std::vector<Link*> nodes(count);
        for (Link*& node : nodes) node = make_in(memory, Link{});
        if (order == Order::shuffled)
            std::shuffle(nodes.begin(), nodes.end(), std::mt19937_64(2026));
        for (std::size_t n = 0; n < count; ++n)
            *nodes[n] = {n, n + 1 < count ? nodes[n + 1] : nullptr};
        return nodes.front();
    }
};

struct Branch {
    std::uint64_t value = 0;
    Branch* left = nullptr;
    Branch* right = nullptr;
};

// Complete and binary, allocated depth first.
struct Tree : Workload {
    using Root = Branch;
    using Targets = std::tuple<Branch>;
    unsigned levels = 20;

    std::uint64_t objects() const { return (std::uint64_t{1} << levels) - 1; }
    std::size_t bytes() const { return objects() * 32 + 4096; }
    Branch* make(auto& memory) const {
        std::uint64_t next = 0;
        return make(memory, levels, next);
    }

  private:
    static Branch* make(auto& memory, unsigned levels, std::uint64_t& next) {
        if (levels == 0) return nullptr;
        auto* branch = make_in(memory, Branch{next++, nullptr, nullptr});
        branch->left = make(memory, levels - 1, next);
        branch->right = make(memory, levels - 1, next);
        return branch;
    }
};

struct Node {
    std::uint64_t value = 0;
    Node* first = nullptr;
    Node* second = nullptr;
    Node* third = nullptr;
    Node* fourth = nullptr;
};

// Four references in each node: one to the next in a ring, so that all are reached, and three to
// random nodes.
struct Cyclic : Workload {
    using Root = Node;
    using Targets = std::tuple<Node>;
    std::size_t count = 100'000;

    std::uint64_t objects() const { return count; }
    std::size_t bytes() const { return count * 48 + 4096; }
    Node* make(auto& memory) const {
        std::vector<Node*> nodes(count);
        for (Node*& node : nodes) node = make_in(memory, Node{});
        std::mt19937_64 random(2026);
        const auto any = [&] { return nodes[random() % count]; };
        for (std::size_t n = 0; n < count; ++n) {
            Node* const second = any();
            Node* const third = any();
            *nodes[n] = {n, nodes[(n + 1) % count], second, third, any()};
        }
        return nodes.front();
    }
};

}  // namespace bench_graph

VERBATIM_COMPOSED(bench_graph::Link);
VERBATIM_COMPOSED(bench_graph::Branch);
VERBATIM_COMPOSED(bench_graph::Node);
