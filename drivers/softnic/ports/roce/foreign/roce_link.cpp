// Packets of a link.
#include "roce_link.hpp"

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

#include "../back_end/link_sender.hpp"

namespace verbatim::softnic {
namespace {

const EthernetLink& checked(const EthernetLink& link, const std::array<std::uint8_t, 16>& address) {
    if (link.address() == address) return link;
    throw Error(Errc::invalid_argument, "dpdk port",
                fmt::format("packets of {} cannot leave by the link of {}", text_of({address, 0}),
                            text_of({link.address(), 0})),
                "give both the same address (dpdk_address, softnic run --address)");
}

}  // namespace

RoceLink::RoceLink(const std::shared_ptr<EthernetLink>& link,
                   const std::array<std::uint8_t, 16>& address)
    : RoceEndpoint({checked(*link, address).address(), kRocePort}, link->gate()), link_(link) {
    link_->listen(*this);
}

RoceLink::~RoceLink() {
    if (!link_->inherited()) link_->stop_listening(*this);
}

std::unique_ptr<PacketBackEnd> RoceLink::make_sender(const StreamPlace& peer) {
    return std::make_unique<LinkSender>(*link_, place(), peer);
}

// Inside the link's gate.
bool RoceLink::take(const FrameDatagram& datagram, const void* own) noexcept {
    return deliver(datagram.bytes, header_of(datagram), static_cast<const PacketInbox*>(own));
}

}  // namespace verbatim::softnic
