// Packets in frames.
#include "link_sender.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

namespace verbatim::softnic {

namespace {

const StreamPlace& checked(const StreamPlace& own, const StreamPlace& peer) {
    if (is_mapped(own) == is_mapped(peer)) return peer;
    throw Error(Errc::unsupported, "dpdk port",
                fmt::format("{} and {} are of two versions of IP", text_of(own), text_of(peer)),
                "give both sides IPv4 or both IPv6 addresses (dpdk_address)");
}

std::size_t carried(const EthernetDevice& device, const StreamPlace& own) {
    const std::size_t headers =
        kUdpHeaderBytes + (is_mapped(own) ? kIpv4HeaderBytes : kIpv6HeaderBytes);
    return device.mtu() - std::min(headers, device.mtu());
}

}  // namespace

// The question goes out now: it is answered before the first packet, mostly.
LinkSender::LinkSender(EthernetLink& link, const StreamPlace& own, const StreamPlace& peer)
    : link_(link),
      peer_(checked(own, peer)),
      most_(carried(link.device(), own)),
      neighbour_(link.neighbour(peer.address)),
      headers_(link.device().mac(), own, peer) {
    link_.ask(*neighbour_);
}

// A datagram is not sent again: so it waits. Nobody waits long for an address that is not there.
LinkSender::Way LinkSender::find_way() noexcept {
    MacAddress mac;
    if (neighbour_->find(mac)) {
        headers_.set_destination(mac);
        return Way::known;
    }
    link_.ask(*neighbour_);
    return neighbour_->may_come() ? Way::asked : Way::lost;
}

// Programs do not learn of packets that are lost, and would look for the cause for long.
bool LinkSender::fits(std::size_t datagram_bytes) noexcept try {
    if (datagram_bytes <= most_) [[likely]]
        return true;
    if (!std::exchange(told_, true))
        log::warn(
            "a packet of {} bytes to {} was not sent: the device carries {}; set [devices] "
            "mtu to what the network carries, or dpdk_mtu",
            datagram_bytes, text_of(peer_), most_);
    return false;
} catch (const std::exception&) {
    return false;
}

std::size_t LinkSender::send(std::span<const PacketPieces> packets) noexcept {
    const Way way = find_way();
    if (way != Way::known) return way == Way::asked ? 0 : packets.size();
    std::array<std::array<std::byte, DatagramHeaders::kMost>, kBurst> headers;
    std::array<OutgoingFrame, kBurst> frames;
    const std::size_t count = std::min(packets.size(), kBurst);
    std::size_t used = 0;
    for (const PacketPieces& packet : packets.first(count)) {
        if (!fits(packet.bytes())) continue;
        const std::size_t bytes = headers_.write(packet.bytes(), headers[used]);
        frames[used] = {std::span(headers[used]).first(bytes), packet};
        ++used;
    }
    // Those that the device has no room for are the last ones: with lost ones before, all count.
    const std::size_t taken = used == 0 ? 0 : link_.device().send({frames.data(), used});
    return used == count ? taken : count;
}

}  // namespace verbatim::softnic
