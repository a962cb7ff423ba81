// Headers, padding and checksums of packets.
#include "packet_output.hpp"

#include <algorithm>
#include <cstring>

namespace verbatim::softnic {

PacketOutput::Slot& PacketOutput::begin(const Head& head) noexcept {
    if (used_ == kSlots) flush();
    Slot& slot = slots_[used_++];
    slot.base.opcode = static_cast<std::uint8_t>(head.opcode);
    slot.base.flags =
        static_cast<std::uint8_t>(kMigratedPacket | (head.solicited ? kSolicitedPacket : 0));
    slot.base.partition = mlx5::be16(kDefaultPartition);
    const bool notice = head.opcode == PacketOpcode::congestion_notice;
    slot.base.queue_pair = mlx5::be32(queue_pair_ | (notice ? kBackwardCongestion : 0));
    slot.base.sequence = mlx5::be32(head.sequence | (head.asks ? kAsksForAcknowledgement : 0));
    slot.pieces[0] = {&slot.base, sizeof slot.base};
    slot.count = 1;
    return slot;
}

void PacketOutput::add(const Head& head, const Gathered& body) noexcept { put(begin(head), body); }

void PacketOutput::put(Slot& slot, const Gathered& body) noexcept {
    for (int i = 0; i < body.count; ++i) slot.pieces[slot.count++] = body.runs[i];
    finish(slot, -body.bytes & 3);
}

void PacketOutput::finish(Slot& slot, std::size_t padding) noexcept {
    constexpr unsigned kPaddingShift = 4;
    slot.base.flags |= static_cast<std::uint8_t>(padding << kPaddingShift);
    slot.trailer = {};
    iovec& last = slot.pieces[slot.count++];
    last = {slot.trailer.data(), padding};
    PacketPieces& packet = packets_[used_ - 1] =
        std::span<const iovec>(slot.pieces).first(slot.count);
    packet.identification = place_in_run(packet.bytes() + kChecksumBytes);
    const std::uint32_t sum = checksum_.of(packet) ^ checksum_.change_by(packet.identification);
    std::memcpy(slot.trailer.data() + padding, &sum, sizeof sum);
    last.iov_len += sizeof sum;
    ++count_;
}

// Packets of the path's whole length that follow each other.
std::uint16_t PacketOutput::place_in_run(std::size_t datagram_bytes) noexcept {
    const bool is_whole = runs_ && datagram_bytes == checksum_.run_bytes();
    const std::uint16_t place = is_whole ? next_in_run_ : 0;
    next_in_run_ = is_whole && place + 1u != PacketChecksum::kMostInRun
                       ? static_cast<std::uint16_t>(place + 1)
                       : 0;
    return place;
}

void PacketOutput::flush() noexcept {
    for (std::size_t sent = 0; sent < used_;) {
        const std::size_t more = back_end_.send(std::span(packets_).subspan(sent, used_ - sent));
        if (more == 0) break;
        sent += more;
    }
    used_ = 0;
    next_in_run_ = 0;
    runs_ = back_end_.sends_runs();
}

}  // namespace verbatim::softnic
