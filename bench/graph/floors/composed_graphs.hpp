// Verifying traversals by hand of arrays of pointers, and of what these lead to. Each returns the
// root, or throws.
#pragma once

#include <vector>

#include "../workloads/networks.hpp"
#include "../workloads/sequences.hpp"
#include "composed_checks.hpp"

namespace bench_graph::by_hand {

inline Cloud* receive(Cloud* sent, const Memory& memory, std::byte* map) {
    const auto [places, starts, root] = Begun<Cloud, Starts>(sent, memory, map);
    move_vector(root->points, places, starts);
    for (Point*& point : root->points) (void)starts.follow<Point, 1>(point, memory);
    return root;
}

inline PairList* receive(PairList* sent, const Memory& memory, std::byte* map) {
    const auto [places, starts, root] = Begun<PairList, Starts>(sent, memory, map);
    move_vector(root->pairs, places, starts);
    for (Pair*& pair : root->pairs)
        if (Pair* const at = starts.follow<Pair, 1>(pair, memory))
            (void)starts.follow<Letters, 2>(at->letters, memory);
    return root;
}

inline RoadMap* receive(RoadMap* sent, const Memory& memory, std::byte* map) {
    const auto [places, starts, root] = Begun<RoadMap, Starts>(sent, memory, map);
    static std::vector<City*> left(std::size_t{1} << 20);
    City** end = left.data();
    move_vector(root->cities, places, starts);
    for (City*& listed : root->cities) {
        if (City* const city = starts.follow<City, 1>(listed, memory)) *end++ = city;
        while (end != left.data()) {
            City* const city = *--end;
            move_vector(city->roads, places, starts);
            for (Road*& field : city->roads)
                if (Road* const road = starts.follow<Road, 2>(field, memory))
                    for (City** const city_of_road : {&road->to, &road->from})
                        if (City* const next = starts.follow<City, 1>(*city_of_road, memory))
                            *end++ = next;
        }
    }
    return root;
}

}  // namespace bench_graph::by_hand
