// The GID choice selects an entry of a port's GID table, apart from the device, so that it can be
// tested.
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

// Conditions on a queue pair's GID.
struct GidWish {
    int index = -1;                          // >= 0: that entry and no other
    std::array<std::uint8_t, 16> address{};  // the entry of this address, if there is one
};

// RoCE v2, or on InfiniBand the first entry. Without an address, the entry with the widest scope:
// IPv4, then global, site-local (fc00::/7) and link-local IPv6. Empty: none does.
std::optional<GidEntry> choose_gid(std::span<const GidEntry> table, const GidWish& wish) noexcept;
// "fe80:0000:...".
std::string gid_text(const std::array<std::uint8_t, 16>& gid);

}  // namespace verbatim::rdma
