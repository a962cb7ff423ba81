// Parts of the tests of windows: sizes, budgets, and reclaims said by hand.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "link/object_link.hpp"
#include "objects_pair.hpp"

namespace verbatim::test {

using Numbers = std::vector<int>;
inline constexpr std::size_t kMany = 1'000'000;
inline Deadline in_time() { return Deadline::after(std::chrono::seconds(20)); }

inline Config limited_config(std::size_t budget, std::size_t graph) {
    Config config = small_config();
    config.objects.window_budget = budget;
    config.objects.max_graph_bytes = graph;
    config.objects.window_max = std::size_t{1} << 20;
    return config;
}

// What a receiver says that wants a window back.
inline Errc ask_back(Connection& receiver, std::uint32_t window, std::uint32_t flags) {
    namespace wire = objects::wire;
    return LayerChannel::try_send(receiver, wire::kChannel,
                                  wire::bytes_of(wire::WindowId{window, flags}), {},
                                  wire::kReclaim);
}

}  // namespace verbatim::test
