// Packets of one queue pair.
#include "link_back_end.hpp"

#include <algorithm>
#include <array>
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
    : door_(std::move(door)), peer_(peer), sender_(door_->link(), door_->place(), peer) {}

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

}  // namespace verbatim::softnic
