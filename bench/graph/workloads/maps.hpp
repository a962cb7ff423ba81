// Maps of 100,000 entries, ordered and hashed, from numbers and from text.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "workload.hpp"

namespace bench_graph {

struct Entry {
    double value = 0;
    std::uint64_t count = 0;
};

template <class Map>
struct MapRoot {
    Map entries;
};
using OrderedMap = std::pmr::map<std::int32_t, Entry>;
using TextMap = std::pmr::map<std::pmr::string, Entry>;
using HashedMap = std::pmr::unordered_map<std::int32_t, Entry>;
using HashedTextMap = std::pmr::unordered_map<std::pmr::string, Entry>;

template <class Map>
inline constexpr bool kHasText = std::is_same_v<typename Map::key_type, std::pmr::string>;
template <class Map>
inline constexpr bool kHashed = requires(Map map) {
    map.bucket_count();
};

template <class Map>
struct Maps : Workload {
    using Root = MapRoot<Map>;
    std::size_t count = 100'000;

    std::uint64_t objects() const { return count; }
    std::size_t bytes() const { return count * 192 + 4096; }
    Root* make(auto& memory) const {
        auto* root = make_in(memory, Root{Map(resource_of(memory))});
        if constexpr (kHashed<Map>) root->entries.reserve(count);
        for (std::size_t n = 0; n < count; ++n)
            root->entries.emplace(key(static_cast<std::uint32_t>(n)),
                                  Entry{static_cast<double>(n) / 7, std::uint64_t{n} * n});
        return root;
    }

  private:
    // Scattered over all numbers, each once (Knuth, The Art of Computer Programming, vol. 3, §6.4).
    // Text is longer than what fits into a string itself.
    static auto key(std::uint32_t n) {
        const std::uint32_t number = n * 2'654'435'761u;
        if constexpr (kHasText<Map>)
            return fmt::format("the key of {:010}", number);
        else
            return static_cast<std::int32_t>(number);
    }
};

// Independent of the order of entries. Looks each one up, so the map must work.
template <class Map>
std::uint64_t sum_of(const MapRoot<Map>& root) {
    std::uint64_t sum = root.entries.size();
    for (const auto& [key, entry] : root.entries) {
        const auto found = root.entries.find(key);
        if (found == root.entries.end() || &found->second != &entry) return 0;
        std::uint64_t number;
        if constexpr (kHasText<Map>)
            number = XXH3_64bits(key.data(), key.size());
        else
            number = static_cast<std::uint64_t>(key);
        const std::uint64_t parts[] = {number, std::bit_cast<std::uint64_t>(entry.value),
                                       entry.count};
        sum += XXH3_64bits(parts, sizeof parts);
    }
    return sum;
}

template <class Visit>
void for_each_map(Visit visit) {
    visit(Maps<OrderedMap>{{"map_100k"}});
    visit(Maps<TextMap>{{"map_100k_text"}});
    visit(Maps<HashedMap>{{"unordered_map_100k"}});
    visit(Maps<HashedTextMap>{{"unordered_map_100k_text"}});
}

}  // namespace bench_graph
