// The arenas of a context, with their regions: those of objects and for what peers write, and any
// others by name. Local memory of a request, and memory that is lent, may lie in each of them.
// Threads: any; the set does not change.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include <verbatim/core/config.hpp>

#include "region_table.hpp"

namespace verbatim {

struct RegionTables {
    // Throws what arenas throw; Error(config_error): two of one name.
    RegionTables(Device& device, const Config& config, Access access);

    // Null: `at` lies in none of them.
    RegionTable* find(const void* at) noexcept {
        if (received.arena().contains(at)) return &received;
        return objects.arena().contains(at) ? &objects : find_named(at);
    }
    // The same where that is refused later: the arena of objects.
    RegionTable& of(const void* at) noexcept {
        RegionTable* const table = find(at);
        return table == nullptr ? objects : *table;
    }
    // Throws Error(invalid_argument) with the names there are.
    Arena& named_arena(std::string_view name) const;

    RegionTable objects;   // arena(): sent from where they lie
    RegionTable received;  // receive_arena(): for what peers write

    template <class Call>
    void for_each(Call call) {
        call(objects.arena());
        call(received.arena());
        for (const auto& one : named_) call(one->arena());
    }

  private:
    RegionTable* find_named(const void* at) noexcept;
    std::vector<std::unique_ptr<RegionTable>> named_;
};

}  // namespace verbatim
