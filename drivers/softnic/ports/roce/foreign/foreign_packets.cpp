// Packets of one queue pair among those of others.
#include "foreign_packets.hpp"

#include <cerrno>

#include "../back_end/udp_socket.hpp"

namespace verbatim::softnic {

ForeignPackets::ForeignPackets(std::shared_ptr<RoceSocket> socket, std::uint32_t queue_pair,
                               const StreamPlace& peer)
    : socket_(std::move(socket)),
      queue_pair_(queue_pair),
      peer_(name_of(peer)),
      inbox_(peer.address) {
    socket_->add(queue_pair, inbox_);
}

ForeignPackets::~ForeignPackets() { socket_->remove(queue_pair_); }

std::size_t ForeignPackets::receive(std::span<std::byte> into, std::size_t each,
                                    std::span<std::size_t> lengths) noexcept {
    inbox_.quiet();
    if (inbox_.empty()) socket_->drain(&inbox_);
    std::size_t count = 0;
    marked_ = 0;
    for (; count != lengths.size() && !inbox_.empty(); ++count) {
        marked_ |= std::uint32_t{inbox_.origin().traffic.marked()} << count;
        lengths[count] = inbox_.take(into.subspan(count * each, each));
    }
    if (!inbox_.empty()) inbox_.signal();  // nobody may look again by himself
    return count;
}

std::size_t ForeignPackets::send(std::span<const PacketPieces> packets) noexcept {
    const int sent = send_packets(socket_->file(), peer_, packets);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EINTR) return 0;
    return 1;  // the first one is lost
}

}  // namespace verbatim::softnic
