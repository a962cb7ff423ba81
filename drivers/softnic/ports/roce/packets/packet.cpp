// Shapes and checks of received packets.
#include "packet.hpp"

namespace verbatim::softnic {
namespace {

using Payload = PacketShape::Payload;

constexpr std::uint8_t kRemote = sizeof(RemoteHeader), kAnswer = sizeof(AnswerHeader),
                       kImmediate = sizeof(ImmediateHeader);
constexpr std::uint8_t kVersionMask = 0x0f;

constexpr PacketShape request(std::size_t extended, Payload payload, bool first,
                              bool last) noexcept {
    return {static_cast<std::uint8_t>(extended), payload, true, false, first, last};
}
constexpr PacketShape answer(std::size_t extended, Payload payload) noexcept {
    return {static_cast<std::uint8_t>(extended), payload, true, true, false, false};
}

PacketShape shape_of_send(PacketOpcode opcode) noexcept {
    using enum PacketOpcode;
    switch (opcode) {
        case send_first:
            return request(0, Payload::full, true, false);
        case send_middle:
            return request(0, Payload::full, false, false);
        case send_last:
            return request(0, Payload::some, false, true);
        case send_last_immediate:
        case send_last_invalidate:
            return request(kImmediate, Payload::some, false, true);
        case send_only:
            return request(0, Payload::any, true, true);
        default:
            return request(kImmediate, Payload::any, true, true);
    }
}

PacketShape shape_of_write(PacketOpcode opcode) noexcept {
    using enum PacketOpcode;
    switch (opcode) {
        case write_first:
            return request(kRemote, Payload::full, true, false);
        case write_middle:
            return request(0, Payload::full, false, false);
        case write_last:
            return request(0, Payload::some, false, true);
        case write_last_immediate:
            return request(kImmediate, Payload::some, false, true);
        case write_only:
            return request(kRemote, Payload::any, true, true);
        default:
            return request(kRemote + kImmediate, Payload::any, true, true);
    }
}

bool payload_fits(Payload wanted, std::size_t bytes, std::size_t mtu) noexcept {
    switch (wanted) {
        case Payload::none:
            return bytes == 0;
        case Payload::full:
            return bytes == mtu;
        case Payload::some:
            return bytes != 0 && bytes <= mtu;
        case Payload::any:
            return bytes <= mtu;
    }
    return false;
}

PacketShape shape_of_message(std::uint8_t opcode) noexcept {
    switch (static_cast<PacketOpcode>(opcode)) {
        case PacketOpcode::datagram:
            return request(sizeof(DatagramHeader), Payload::any, true, true);
        case PacketOpcode::datagram_immediate:
            return request(sizeof(DatagramHeader) + kImmediate, Payload::any, true, true);
        default:
            return {};
    }
}

bool parse_as(PacketShape (&shape)(std::uint8_t) noexcept, std::span<const std::byte> datagram,
              std::size_t mtu, WirePacket& packet) noexcept {
    if (datagram.size() < sizeof(BaseHeader) + kChecksumBytes) return false;
    BaseHeader base;
    __builtin_memcpy(&base, datagram.data(), sizeof base);
    packet.shape = shape(base.opcode);
    const std::size_t padding = (base.flags >> 4) & 3;
    const std::size_t around = sizeof base + packet.shape.extended + padding + kChecksumBytes;
    if (!packet.shape.known || (base.flags & kVersionMask) != 0 ||
        base.partition.native() != kDefaultPartition || datagram.size() < around)
        return false;
    const std::size_t bytes = datagram.size() - around;
    if ((bytes + padding) % 4 != 0 || !payload_fits(packet.shape.payload, bytes, mtu)) return false;
    packet.opcode = static_cast<PacketOpcode>(base.opcode);
    packet.solicited = (base.flags & kSolicitedPacket) != 0;
    packet.asks = (base.sequence.native() & kAsksForAcknowledgement) != 0;
    packet.queue_pair = base.queue_pair.native() & kSequenceMask;
    packet.sequence = base.sequence.native() & kSequenceMask;
    packet.extended = datagram.subspan(sizeof base, packet.shape.extended);
    packet.payload = datagram.subspan(sizeof base + packet.shape.extended, bytes);
    return true;
}

}  // namespace

PacketShape shape_of(std::uint8_t opcode) noexcept {
    using enum PacketOpcode;
    const auto named = static_cast<PacketOpcode>(opcode);
    if (named <= send_only_immediate || named == send_last_invalidate ||
        named == send_only_invalidate)
        return shape_of_send(named);
    if (named <= write_only_immediate) return shape_of_write(named);
    switch (named) {
        case read_request:
            return request(kRemote, Payload::none, true, true);
        case response_first:
            return answer(kAnswer, Payload::full);
        case response_middle:
            return answer(0, Payload::full);
        case response_last:
        case response_only:
            return answer(kAnswer, Payload::any);
        case acknowledge:
            return answer(kAnswer, Payload::none);
        case atomic_acknowledge:
            return answer(sizeof(AtomicAnswerHeader), Payload::none);
        case compare_swap:
        case fetch_add:
            return request(sizeof(AtomicHeader), Payload::none, true, true);
        case congestion_notice:
            return answer(sizeof(NoticeHeader), Payload::none);
        case state:
            return answer(sizeof(StateHeader), Payload::none);
        case probe:
            return answer(sizeof(ProbeHeader), Payload::none);
        case masked_atomic:
            return request(kMaskedAtomicBody, Payload::none, true, true);
        default:
            return {};
    }
}

bool parse_packet(std::span<const std::byte> datagram, std::size_t mtu,
                  WirePacket& packet) noexcept {
    return parse_as(shape_of, datagram, mtu, packet);
}

bool parse_message(std::span<const std::byte> datagram, std::size_t mtu,
                   WirePacket& packet) noexcept {
    return parse_as(shape_of_message, datagram, mtu, packet);
}

}  // namespace verbatim::softnic
