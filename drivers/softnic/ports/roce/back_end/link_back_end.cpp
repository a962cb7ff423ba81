// Packets in frames.
#include "link_back_end.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {

LinkDoor::LinkDoor(std::shared_ptr<EthernetLink> link, std::uint32_t queue_pair)
    : link_(std::move(link)), queue_pair_(queue_pair) {
    if (!inbox_.usable())
        throw Error(Errc::device_error, "inbox of a queue pair", errno_text(errno),
                    "raise the limit of open files (ulimit -n)");
    place_ = link_->add(queue_pair_, inbox_);
}

LinkDoor::~LinkDoor() {
    if (!link_->inherited()) link_->remove(queue_pair_, place_, inbox_);
}

LinkBackEnd::LinkBackEnd(std::unique_ptr<LinkDoor> door, const StreamPlace& peer)
    : door_(std::move(door)),
      peer_(peer),
      neighbour_(door_->link().neighbour(peer.address)),
      headers_(door_->link().device().mac(), door_->place(), peer) {}

std::size_t LinkBackEnd::receive(std::span<std::byte> into, std::size_t each,
                                 std::span<std::size_t> lengths) noexcept {
    LinkInbox& inbox = door_->inbox();
    if (inbox.empty()) door_->link().poll();
    std::array<void*, kBurst> owners;
    const std::size_t most = std::min({lengths.size(), into.size() / each, kBurst});
    std::size_t count = 0;
    for (LinkInbox::Item item; count < most && inbox.pop(item); ++count) {
        const FrameDatagram& datagram = item.datagram;
        const bool own = datagram.from == peer_ && datagram.bytes.size() <= each;
        lengths[count] = own ? datagram.bytes.size() : 0;
        std::memcpy(into.data() + count * each, datagram.bytes.data(), lengths[count]);
        foreign_ += own ? 0 : 1;
        owners[count] = item.owner;
    }
    if (count != 0) door_->link().device().release({owners.data(), count});
    return count;
}

// Until the peer's MAC address is known its packets are lost, and sent again.
bool LinkBackEnd::ready_to_send() noexcept {
    constexpr std::chrono::milliseconds kAskEvery{5};
    MacAddress mac;
    if (neighbour_->find(mac)) {
        headers_.set_destination(mac);
        return true;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - asked_ < kAskEvery) return false;
    asked_ = now;
    door_->link().ask(*neighbour_);
    return false;
}

std::size_t LinkBackEnd::send(std::span<const PacketPieces> packets) noexcept {
    if (!ready_to_send()) return packets.size();
    std::array<std::array<std::byte, DatagramHeaders::kMost>, kBurst> headers;
    std::array<OutgoingFrame, kBurst> frames;
    const std::size_t count = std::min(packets.size(), kBurst);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t used = headers_.write(packets[i].bytes(), headers[i]);
        frames[i] = {std::span(headers[i]).first(used), packets[i]};
    }
    return door_->link().device().send({frames.data(), count});
}

}  // namespace verbatim::softnic
