// Arenas by name.
#include "region_tables.hpp"

#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace verbatim {
namespace {

std::shared_ptr<Arena> receive_arena(ArenaOptions options) {
    options.is_set_aside = true;
    return std::make_shared<Arena>(options);
}

}  // namespace

RegionTables::RegionTables(Device& device, const Config& config, Access access)
    : objects(device, std::make_shared<Arena>(config.arena), access),
      received(device, receive_arena(config.receive_arena), access) {
    for (const ArenaOptions& options : config.named_arenas) {
        for (const auto& other : named_)
            if (other->arena().options().name == options.name)
                throw Error(Errc::config_error, "arena " + options.name, "there are two of it",
                            "give each named arena a name of its own");
        named_.push_back(
            std::make_unique<RegionTable>(device, std::make_shared<Arena>(options), access));
    }
}

RegionTable* RegionTables::find_named(const void* at) noexcept {
    for (const auto& table : named_)
        if (table->arena().contains(at)) return table.get();
    return nullptr;
}

Arena& RegionTables::named_arena(std::string_view name) const {
    std::vector<std::string_view> names;
    for (const auto& table : named_) {
        if (table->arena().options().name == name) return table->arena();
        names.push_back(table->arena().options().name);
    }
    throw Error(Errc::invalid_argument, fmt::format("arena {}", name), "there is none of that name",
                names.empty() ? "add a [[named_arena]] section to the configuration"
                              : fmt::format("there are: {}", fmt::join(names, ", ")));
}

}  // namespace verbatim
