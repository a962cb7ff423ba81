// Packets both ways, after they were received and when they were sent.
#include "captured_packets.hpp"

namespace verbatim::softnic {

std::size_t CapturedPackets::receive(std::span<std::byte> into, std::size_t each,
                                     std::span<std::size_t> lengths) noexcept {
    const std::size_t count = inner_->receive(into, each, lengths);
    for (std::size_t i = 0; i < count; ++i) {
        if (lengths[i] == 0) continue;  // another's
        const iovec piece{into.data() + i * each, lengths[i]};
        const std::uint16_t hidden =
            checksum_.identification_of(into.subspan(i * each, lengths[i])).value_or(0);
        file_.add(CaptureFile::Direction::inbound, incoming_,
                  PacketPieces(std::span(&piece, 1), hidden));
    }
    return count;
}

std::size_t CapturedPackets::send(std::span<const PacketPieces> packets) noexcept {
    const std::size_t taken = inner_->send(packets);
    for (const PacketPieces& packet : packets.first(taken))
        file_.add(CaptureFile::Direction::outbound, outgoing_, packet);
    return taken;
}

}  // namespace verbatim::softnic
