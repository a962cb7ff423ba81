// Source: InfiniBand Architecture Specification, "Address Vector"; ibv_modify_qp(3).
#include "address_vector.hpp"

#include <algorithm>

namespace verbatim::rdma {
namespace {

constexpr std::uint8_t kHopLimit = 64;
constexpr std::ptrdiff_t kSubnetBytes = 8;  // of a GID
constexpr std::uint8_t kMostReads = 16, kReadsOfUnknownPeers = 1;

bool needs_route(const Port& port, const GidEntry& own, const QueuePairAddress& peer) noexcept {
    if (!port.is_infiniband()) return true;
    if ((port.port_attributes.flags & IBV_QPF_GRH_REQUIRED) != 0) return true;
    return !std::equal(own.bytes.begin(), own.bytes.begin() + kSubnetBytes, peer.gid.begin());
}

}  // namespace

ibv_ah_attr address_vector(const Port& port, const GidEntry& own,
                           const QueuePairAddress& peer) noexcept {
    ibv_ah_attr way{};
    way.port_num = port.number;
    way.dlid = peer.lid;
    way.sl = static_cast<std::uint8_t>(port.options.service_level);
    if (!needs_route(port, own, peer)) return way;
    way.is_global = 1;
    std::copy(peer.gid.begin(), peer.gid.end(), way.grh.dgid.raw);
    way.grh.sgid_index = static_cast<std::uint8_t>(own.index);
    way.grh.hop_limit = kHopLimit;
    way.grh.traffic_class = static_cast<std::uint8_t>(port.options.traffic_class);
    return way;
}

std::uint8_t reads_answered(int device) noexcept {
    return static_cast<std::uint8_t>(std::clamp<int>(device, 0, kMostReads));
}

std::uint8_t reads_asked(int device, const QueuePairAddress& peer) noexcept {
    const std::uint8_t answered = std::max(peer.reads_answered, kReadsOfUnknownPeers);
    return std::min(reads_answered(device), answered);
}

}  // namespace verbatim::rdma
