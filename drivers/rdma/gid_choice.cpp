// Choice of a GID.
#include <verbatim/rdma/gid_choice.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::rdma {

namespace {

// How little an address reaches. A RoCE v2 GID is an IP address, an IPv4 one mapped into IPv6.
int narrowness(const GidEntry& entry) noexcept {
    constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const auto& bytes = entry.bytes;
    if (entry.kind == GidKind::infiniband) return 0;
    if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) return 0;
    if (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) return 3;
    return (bytes[0] & 0xfe) == 0xfc ? 2 : 1;
}

}  // namespace

std::optional<GidEntry> choose_gid(std::span<const GidEntry> table, const GidWish& wish) noexcept {
    const GidEntry* best = nullptr;
    for (const GidEntry& entry : table) {
        if (wish.index >= 0) {
            if (entry.index == static_cast<std::uint32_t>(wish.index)) return entry;
            continue;
        }
        if (entry.kind == GidKind::roce_v1) continue;
        if (entry.bytes == wish.address) return entry;
        if (best == nullptr || narrowness(entry) < narrowness(*best)) best = &entry;
    }
    return best != nullptr ? std::optional(*best) : std::nullopt;
}

std::string gid_text(const std::array<std::uint8_t, 16>& gid) {
    std::string text;
    for (std::size_t i = 0; i < gid.size(); i += 2)
        text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid[i], gid[i + 1]);
    return text;
}

}  // namespace verbatim::rdma
