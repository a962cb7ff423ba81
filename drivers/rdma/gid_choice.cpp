// Choice of a GID.
#include "gid_choice.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::rdma {

std::optional<GidEntry> choose_gid(std::span<const GidEntry> table, int wanted) noexcept {
    const auto suits = [wanted](const GidEntry& entry) {
        if (wanted >= 0) return entry.index == static_cast<std::uint32_t>(wanted);
        return entry.kind != GidKind::roce_v1;
    };
    const auto found = std::find_if(table.begin(), table.end(), suits);
    if (found == table.end()) return std::nullopt;
    return *found;
}

std::string gid_text(const std::array<std::uint8_t, 16>& gid) {
    std::string text;
    for (std::size_t i = 0; i < gid.size(); i += 2)
        text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid[i], gid[i + 1]);
    return text;
}

}  // namespace verbatim::rdma
