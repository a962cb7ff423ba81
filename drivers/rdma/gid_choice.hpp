// Which GID of a port to use: the choice alone, apart from the device, so that it can be tested.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace verbatim::rdma {

enum class GidKind : std::uint8_t { infiniband, roce_v1, roce_v2 };

struct GidEntry {
    std::uint32_t index = 0;
    GidKind kind = GidKind::infiniband;
    std::array<std::uint8_t, 16> bytes{};
};

// `wanted` >= 0: that entry; else the first RoCE v2 entry, or on InfiniBand the first entry. Empty:
// none does.
std::optional<GidEntry> choose_gid(std::span<const GidEntry> table, int wanted) noexcept;
// "fe80:0000:...".
std::string gid_text(const std::array<std::uint8_t, 16>& gid);

}  // namespace verbatim::rdma
