// The longest chain of dependencies: Tarjan's components with an explicit stack (dependency chains
// of a large archive, and of a hostile one, are longer than a call stack is deep), and the longest
// path along the way.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "packages/totals.hpp"

namespace packages {

namespace {

using Index = std::uint32_t;
constexpr Index kNone = std::numeric_limits<Index>::max();

// Successors of node n: targets[first[n]] .. targets[first[n + 1] - 1].
struct Adjacency {
    std::vector<Index> first;
    std::vector<Index> targets;
};

// A node is a package's place in the graph's list. One without versions has no edges and is no
// target.
class AdjacencyBuilder {
  public:
    explicit AdjacencyBuilder(const Graph& graph) : graph_(graph) {
        for (const Package& package : graph.packages) add(package);
        result_.first.push_back(static_cast<Index>(result_.targets.size()));
    }
    Adjacency take() { return std::move(result_); }

  private:
    void add(const Package& package) {
        result_.first.push_back(static_cast<Index>(result_.targets.size()));
        for (const Version& version : package.versions)
            for (const Dependency& dependency : version.dependencies)
                if (dependency.kind == Kind::depends || dependency.kind == Kind::pre_depends)
                    add_target(*dependency.target);
    }

    void add_target(const Package& target) {
        if (!target.versions.empty()) result_.targets.push_back(index_of(&target));
        for (const Package* provider : target.provided_by)
            result_.targets.push_back(index_of(provider));
    }

    Index index_of(const Package* package) const {
        return static_cast<Index>(package - graph_.packages.data());
    }

    const Graph& graph_;
    Adjacency result_;
};

// Components are finished in reverse topological order, so that when one is, the longest paths from
// all the components it leads to are known.
class LongestPath {
  public:
    explicit LongestPath(const Adjacency& graph)
        : graph_(graph),
          order_(graph.first.size() - 1, kNone),
          low_(order_.size()),
          length_(order_.size(), 0),
          next_edge_(graph.first) {
        for (Index node = 0; node < order_.size(); ++node)
            if (order_[node] == kNone) search_from(node);
    }
    std::uint64_t longest() const {
        return length_.empty() ? 0 : *std::max_element(length_.begin(), length_.end());
    }

  private:
    void search_from(Index start) {
        enter(start);
        while (!path_.empty()) {
            const Index node = path_.back();
            if (next_edge_[node] < graph_.first[node + 1])
                follow(node, graph_.targets[next_edge_[node]++]);
            else
                leave(node);
        }
    }

    void enter(Index node) {
        order_[node] = low_[node] = entered_++;
        path_.push_back(node);
        open_.push_back(node);
    }

    // A node that was met but has no length yet is in a component that is still open.
    void follow(Index node, Index target) {
        if (order_[target] == kNone)
            enter(target);
        else if (length_[target] == 0)
            low_[node] = std::min(low_[node], order_[target]);
    }

    void leave(Index node) {
        path_.pop_back();
        if (!path_.empty()) low_[path_.back()] = std::min(low_[path_.back()], low_[node]);
        if (low_[node] == order_[node]) close_component(node);
    }

    void close_component(Index root) {
        const auto members = std::find(open_.rbegin(), open_.rend(), root).base() - 1;
        Index beyond = 0;  // members have length 0 here, so edges inside the component do not count
        for (auto member = members; member != open_.end(); ++member)
            for (Index edge = graph_.first[*member]; edge < graph_.first[*member + 1]; ++edge)
                beyond = std::max(beyond, length_[graph_.targets[edge]]);
        for (auto member = members; member != open_.end(); ++member) length_[*member] = beyond + 1;
        open_.erase(members, open_.end());
    }

    const Adjacency& graph_;
    Index entered_ = 0;
    std::vector<Index> order_;      // of entering; kNone: not met yet
    std::vector<Index> low_;        // the earliest open node that can be reached
    std::vector<Index> length_;     // of the longest path from here; 0: component not closed yet
    std::vector<Index> next_edge_;  // to follow
    std::vector<Index> path_;       // from the start to the current node
    std::vector<Index> open_;       // nodes of components that are not closed
};

}  // namespace

std::uint64_t longest_chain(const Graph& graph) {
    return LongestPath(AdjacencyBuilder(graph).take()).longest();
}

}  // namespace packages
