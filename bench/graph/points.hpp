// The points cases: 2^20 separately allocated points behind a vector of pointers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "packages/checksum.hpp"
#include "warm_memory.hpp"

namespace bench_graph {

inline constexpr std::size_t kPoints = std::size_t{1} << 20;

struct Point {
    double x;
    double y;
};

// In an arena.
struct Cloud {
    std::pmr::vector<Point*> points;
};

// On the ordinary heap.
struct HeapCloud {
    std::vector<Point*> points;
};

inline Point nth_point(std::size_t n) {
    return {static_cast<double>(n), 1.0 / static_cast<double>(n + 1)};
}

enum class Order { allocation, shuffled };

// Separate allocations from `memory`, which owns them.
inline Cloud* make_cloud(std::pmr::memory_resource& memory, Order order) {
    auto* cloud = ::new (memory.allocate(sizeof(Cloud), alignof(Cloud)))
        Cloud{std::pmr::vector<Point*>(&memory)};
    cloud->points.reserve(kPoints);
    for (std::size_t n = 0; n < kPoints; ++n)
        cloud->points.push_back(::new (memory.allocate(sizeof(Point), alignof(Point)))
                                    Point(nth_point(n)));
    if (order == Order::shuffled)
        std::shuffle(cloud->points.begin(), cloud->points.end(), std::mt19937_64(2026));
    return cloud;
}

// Points of a HeapCloud belong to the holder of this.
struct DeletePoints {
    void operator()(HeapCloud* cloud) const {
        for (const Point* point : cloud->points) delete point;
        delete cloud;
    }
};
using OwnedHeapCloud = std::unique_ptr<HeapCloud, DeletePoints>;

inline OwnedHeapCloud make_heap_cloud() {
    OwnedHeapCloud cloud(new HeapCloud);
    cloud->points.reserve(kPoints);
    for (std::size_t n = 0; n < kPoints; ++n) cloud->points.push_back(new Point(nth_point(n)));
    return cloud;
}

// The sending side of one case. Memory for one cloud with room for one more object per allocation.
struct ArenaSource {
    static constexpr std::size_t kBytes = kPoints * (sizeof(Point) + sizeof(Point*)) + 4096;
    explicit ArenaSource(Order order) : memory(kBytes), cloud(make_cloud(memory, order)) {}
    WarmMemory memory;
    Cloud* cloud;
};
struct HeapSource {
    OwnedHeapCloud cloud = make_heap_cloud();
};

template <class CloudType>
std::uint64_t points_checksum(const CloudType& cloud) {
    return packages::Checksum(cloud).sum();
}

}  // namespace bench_graph
