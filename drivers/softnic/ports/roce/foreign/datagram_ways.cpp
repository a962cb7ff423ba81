// Packets to one address after the other.
#include "datagram_ways.hpp"

#include <exception>
#include <utility>

namespace verbatim::softnic {

DatagramWays::Way* DatagramWays::to(const std::array<std::uint8_t, 16>& address) noexcept try {
    const auto known = ways_.find(address);
    if (known != ways_.end()) [[likely]]
        return &known->second;
    if (ways_.size() == kMost) ways_.clear();
    const StreamPlace peer{address, kRocePort}, &own = endpoint_->place();
    auto sender = endpoint_->sender_to(peer);
    if (sender == nullptr) return nullptr;
    Way way{PacketChecksum(own, peer), service_.over(std::move(sender), own, peer)};
    return &ways_.emplace(address, std::move(way)).first->second;
} catch (const std::exception&) {
    return nullptr;
}

}  // namespace verbatim::softnic
