// Random graphs with every kind of reference arrive equal in meaning, whatever lies inside what, in
// whatever order it is met, and however the image is cut into fragments.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"

namespace verbatim::objects {
namespace {

struct Leaf {
    double value = 0;
    int number = 0;
    bool flag = false;
};
struct Pair {
    Leaf one;
    Leaf two;
};
struct Vertex {
    int id = 0;
    Vertex* next = nullptr;
    Leaf* leaf = nullptr;     // of any vertex, of a pair, or by itself
    double* value = nullptr;  // inside a leaf
    Pair* pair = nullptr;
    std::array<Vertex*, 2> both{};
    std::vector<Vertex*> many;
    std::vector<Leaf> leaves;
    std::unique_ptr<Vertex> owned;
    std::optional<std::string> name;
    Vertex* inner = nullptr;  // an element of a graph's vector
};
struct Graph {
    Leaf* first_leaf = nullptr;
    std::vector<Vertex> vertices;
    Vertex* start = nullptr;
    std::vector<std::string> texts;
};

// Makes graphs; everything lives in it.
class Maker {
  public:
    Maker(std::uint64_t seed, Arena& arena) : random_(seed), arena_(arena) {}
    ~Maker() {
        for (Vertex* vertex : in_arena_) arena_.destroy(vertex);
    }
    Maker(const Maker&) = delete;
    Maker& operator=(const Maker&) = delete;

    Graph make() {
        Graph graph;
        graph.vertices.resize(below(6));
        for (Vertex& vertex : graph.vertices) all_.push_back(&vertex);
        for (std::size_t i = below(40); i > 0; --i) all_.push_back(new_vertex());
        for (std::size_t i = below(6); i > 0; --i) pairs_.push_back(std::make_unique<Pair>());
        for (Vertex* vertex : all_) fill_own(*vertex);
        for (Vertex* vertex : all_) fill_references(*vertex);
        graph.first_leaf = some_leaf();
        graph.start = some_vertex();
        graph.texts.resize(below(5), "a text that is longer than fifteen characters");
        return graph;
    }

  private:
    std::size_t below(std::size_t end) { return random_() % end; }
    Vertex* new_vertex() {
        if (below(2) == 0) return in_arena_.emplace_back(arena_.make<Vertex>());
        heap_.push_back(std::make_unique<Vertex>());
        return heap_.back().get();
    }
    void fill_own(Vertex& vertex) {
        vertex.id = ++ids_;
        vertex.leaves.resize(below(4));
        for (Leaf& leaf : vertex.leaves) {
            leaf = {static_cast<double>(++ids_), ++ids_, below(2) == 0};
            leaves_.push_back(&leaf);
        }
        if (below(3) == 0) {
            vertex.owned = std::make_unique<Vertex>();
            vertex.owned->id = ++ids_;
            owned_.push_back(vertex.owned.get());
        }
        if (below(2) == 0) vertex.name = std::string(below(40), 'x');
    }
    void fill_references(Vertex& vertex) {
        if (below(4) != 0) vertex.next = some_vertex();
        if (below(2) == 0) vertex.leaf = some_leaf();
        if (Leaf* leaf = some_leaf(); leaf != nullptr && below(3) == 0) vertex.value = &leaf->value;
        if (!pairs_.empty() && below(4) == 0) vertex.pair = pairs_[below(pairs_.size())].get();
        for (Vertex*& one : vertex.both) one = below(2) == 0 ? some_vertex() : nullptr;
        for (std::size_t i = below(5); i > 0; --i) vertex.many.push_back(some_vertex());
        vertex.inner = some_vertex();
    }
    Vertex* some_vertex() {
        if (!owned_.empty() && below(5) == 0) return owned_[below(owned_.size())];
        return all_.empty() ? nullptr : all_[below(all_.size())];
    }
    Leaf* some_leaf() {
        if (!pairs_.empty() && below(3) == 0) {
            Pair& pair = *pairs_[below(pairs_.size())];
            return below(2) == 0 ? &pair.one : &pair.two;
        }
        if (leaves_.empty() || below(6) == 0) {
            single_.push_back(std::make_unique<Leaf>(Leaf{0.5, ++ids_, true}));
            return single_.back().get();
        }
        return leaves_[below(leaves_.size())];
    }

    std::mt19937_64 random_;
    Arena& arena_;
    int ids_ = 0;
    std::vector<Vertex*> all_, owned_, in_arena_;
    std::vector<std::unique_ptr<Vertex>> heap_;
    std::vector<std::unique_ptr<Pair>> pairs_;
    std::vector<Leaf*> leaves_;
    std::vector<std::unique_ptr<Leaf>> single_;
};

// Compares two graphs: equal values, and the same objects wherever the same objects are.
class Comparison {
  public:
    bool equal(const Graph& a, const Graph& b) {
        if (a.vertices.size() != b.vertices.size() || a.texts != b.texts) return false;
        for (std::size_t i = 0; i < a.vertices.size(); ++i) vertex(&a.vertices[i], &b.vertices[i]);
        leaf(a.first_leaf, b.first_leaf);
        vertex(a.start, b.start);
        while (!left_.empty() && equal_) {
            const auto [one, other] = left_.back();
            left_.pop_back();
            members(*one, *other);
        }
        numbers();
        return equal_;
    }

  private:
    bool same(const void* a, const void* b) {
        if ((a == nullptr) != (b == nullptr)) return equal_ = false;
        if (a == nullptr) return true;
        const auto [at, is_new] = places_.emplace(a, b);
        if (at->second != b) equal_ = false;
        return !is_new;
    }
    void vertex(const Vertex* a, const Vertex* b) {
        if (!same(a, b) && equal_) left_.emplace_back(a, b);
    }
    void leaf(const Leaf* a, const Leaf* b) {
        if (leaf_places(a, b) || !equal_) return;
        equal_ &= a->number == b->number && a->flag == b->flag && a->value == b->value;
    }
    // A leaf may be the first member of a pair: places by type.
    bool leaf_places(const Leaf* a, const Leaf* b) {
        if ((a == nullptr) != (b == nullptr)) return equal_ = false;
        if (a == nullptr) return true;
        const auto [at, is_new] = leaves_.emplace(a, b);
        if (at->second != b) equal_ = false;
        return !is_new;
    }
    void members(const Vertex& a, const Vertex& b) {
        equal_ &= a.id == b.id && a.name == b.name && a.many.size() == b.many.size() &&
                  a.leaves.size() == b.leaves.size();
        if (!equal_) return;
        vertex(a.next, b.next);
        vertex(a.inner, b.inner);
        vertex(a.owned.get(), b.owned.get());
        for (std::size_t i = 0; i < 2; ++i) vertex(a.both[i], b.both[i]);
        for (std::size_t i = 0; i < a.many.size(); ++i) vertex(a.many[i], b.many[i]);
        for (std::size_t i = 0; i < a.leaves.size(); ++i) leaf(&a.leaves[i], &b.leaves[i]);
        leaf(a.leaf, b.leaf);
        if ((a.pair == nullptr) != (b.pair == nullptr)) equal_ = false;
        if (a.pair != nullptr && equal_) {
            leaf(&a.pair->one, &b.pair->one);
            leaf(&a.pair->two, &b.pair->two);
        }
        if ((a.value == nullptr) != (b.value == nullptr)) equal_ = false;
        if (a.value != nullptr && equal_) values_[a.value] = b.value;
    }
    // A number inside a leaf is inside the leaf that was sent, if that was sent at all.
    void numbers() {
        for (const auto& [a, b] : values_) {
            equal_ &= *a == *b;
            const auto at = leaves_.find(reinterpret_cast<const Leaf*>(a));
            if (at != leaves_.end()) equal_ &= &at->second->value == b;
        }
    }

    bool equal_ = true;
    std::map<const void*, const void*> places_;
    std::map<const Leaf*, const Leaf*> leaves_;
    std::map<const double*, const double*> values_;
    std::vector<std::pair<const Vertex*, const Vertex*>> left_;
};

TEST(RandomGraphs, arrive_equal_in_meaning) {
    Loopback<Graph> loopback;
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        Maker maker(seed, loopback.arena());
        const Graph graph = maker.make();
        loopback.flush_bytes = seed % 3 == 0 ? 64 : seed % 3 == 1 ? 1024 : kSegmentBytes;
        const Graph& got = loopback.send(graph);
        ASSERT_TRUE(Comparison().equal(graph, got)) << "seed " << seed;
    }
}

}  // namespace
}  // namespace verbatim::objects
