// Release of a requester's packets.
#include "request_packets.hpp"

namespace verbatim::softnic {

bool RequestPackets::at(std::uint64_t position, KeptPacket& packet, Gathered& body) const noexcept {
    if (position == committed_.load(std::memory_order_acquire)) return false;
    ring_.get(position, &packet, sizeof packet);
    body.add(ring_, position + sizeof packet, packet.bytes);
    return true;
}

// After a rewind, packets are released that are to be sent again.
void RequestPackets::release(std::uint64_t number) noexcept {
    std::uint64_t oldest = released_.load(std::memory_order_relaxed);
    const std::uint64_t end = committed_.load(std::memory_order_acquire);
    while (oldest != end) {
        KeptPacket packet;
        ring_.get(oldest, &packet, sizeof packet);
        if (packet.last() > number) break;
        const bool unsent = oldest == sent_;
        oldest += sizeof packet + packet.bytes;
        if (unsent)
            sent_ = oldest;
        else
            --in_flight_;
    }
    released_.store(oldest, std::memory_order_release);
}

}  // namespace verbatim::softnic
