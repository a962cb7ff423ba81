// A graph of two classes: cities that know their roads, and roads that know both cities.
#pragma once

#include <random>
#include <tuple>
#include <vector>

#include <verbatim/objects/describe/composed_marking.hpp>

#include "workload.hpp"

namespace bench_graph {

struct Road;
struct City {
    std::uint64_t number = 0;
    std::pmr::vector<Road*> roads;
};
struct Road {
    std::uint64_t length = 0;
    City* from = nullptr;
    City* to = nullptr;
};
struct RoadMap {
    std::pmr::vector<City*> cities;
};

// Four roads begin at each city, and end at random ones. Numbers are per city and road.
struct Network : Workload {
    using Root = RoadMap;
    using Targets = std::tuple<City, Road>;
    std::size_t count = 50'000;

    static constexpr std::size_t kRoads = 4;  // of a city

    std::uint64_t objects() const { return count * (1 + kRoads); }
    // Arrays of roads grow as programs' do: the old ones stay.
    std::size_t bytes() const { return count * (sizeof(City) + kRoads * (sizeof(Road) + 96)); }
    RoadMap* make(auto& memory) const {
        std::pmr::memory_resource* const resource = resource_of(memory);
        auto* const map = make_in(memory, RoadMap{std::pmr::vector<City*>(resource)});
        map->cities.resize(count);
        for (std::size_t n = 0; n < count; ++n)
            map->cities[n] = make_in(memory, City{n, std::pmr::vector<Road*>(resource)});
        std::mt19937_64 random(2026);
        for (City* const from : map->cities)
            for (std::size_t i = 0; i < kRoads; ++i) {
                City* const to = map->cities[random() % count];
                Road* const road = make_in(memory, Road{random() % 1000, from, to});
                from->roads.push_back(road);
                to->roads.push_back(road);
            }
        return map;
    }
};

}  // namespace bench_graph

VERBATIM_COMPOSED(bench_graph::RoadMap);
