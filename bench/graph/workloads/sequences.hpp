// Vectors of pointers to separately allocated objects (Naos, ATC'21, §4.1): points, which are plain
// values, and pairs, which have an object of their own behind them.
#pragma once

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include <verbatim/objects/describe/composed_marking.hpp>

#include "workload.hpp"

namespace bench_graph {

inline constexpr std::size_t kPoints = std::size_t{1} << 20;

struct Point {
    double x;
    double y;
};
struct Cloud {
    std::pmr::vector<Point*> points;
};

struct Points : Workload {
    using Root = Cloud;
    using Targets = std::tuple<Point>;
    Order order = Order::allocation;
    std::size_t count = kPoints;

    std::uint64_t objects() const { return count; }
    std::size_t bytes() const { return count * (sizeof(Point) + sizeof(Point*)) + 4096; }
    Cloud* make(auto& memory) const {
        auto* cloud = make_in(memory, Cloud{std::pmr::vector<Point*>(resource_of(memory))});
        cloud->points.reserve(count);
        for (std::size_t n = 0; n < count; ++n)
            cloud->points.push_back(
                make_in(memory, Point{static_cast<double>(n), 1.0 / static_cast<double>(n + 1)}));
        if (order == Order::shuffled)
            std::shuffle(cloud->points.begin(), cloud->points.end(), std::mt19937_64(2026));
        return cloud;
    }
};

// Five letters, the average length of an English word, as in Naos' pairs.
struct Letters {
    std::uint64_t text;
};
struct Pair {
    std::int32_t number;
    Letters* letters;
};
struct PairList {
    std::pmr::vector<Pair*> pairs;
};

struct Pairs : Workload {
    using Root = PairList;
    using Targets = std::tuple<Pair, Letters>;
    std::size_t count = std::size_t{1} << 20;

    std::uint64_t objects() const { return 2 * count; }
    std::size_t bytes() const { return count * (16 + sizeof(Pair) + sizeof(Pair*)) + 4096; }
    PairList* make(auto& memory) const {
        auto* list = make_in(memory, PairList{std::pmr::vector<Pair*>(resource_of(memory))});
        list->pairs.reserve(count);
        for (std::size_t n = 0; n < count; ++n) {
            auto* pair = make_in(memory, Pair{static_cast<std::int32_t>(n), nullptr});
            pair->letters = make_in(memory, Letters{0x6161616161 + n % 1000});
            list->pairs.push_back(pair);
        }
        return list;
    }
};

// One array, which is one object.
struct FloatArray {
    std::pmr::vector<float> values;
};

struct Floats : Workload {
    using Root = FloatArray;
    using Targets = std::tuple<>;
    std::size_t count = 64;

    std::uint64_t objects() const { return 1; }
    std::size_t bytes() const { return count * sizeof(float) + 4096; }
    FloatArray* make(std::pmr::memory_resource& memory) const {
        auto* array = make_in(memory, FloatArray{std::pmr::vector<float>(count, &memory)});
        for (std::size_t n = 0; n < count; ++n) array->values[n] = static_cast<float>(n) / 3;
        return array;
    }
};

}  // namespace bench_graph

VERBATIM_COMPOSED(bench_graph::Cloud);
VERBATIM_COMPOSED(bench_graph::PairList);
