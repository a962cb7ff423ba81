// Requests of a peer as frames, a function for each kind.
#include "packet_feeder.hpp"

#include <algorithm>

namespace verbatim::softnic {
namespace {

using Taken = PacketFeeder::Taken;

std::uint8_t flags_of_send(const WirePacket& packet) noexcept {
    using enum PacketOpcode;
    const PacketOpcode opcode = packet.opcode;
    const bool immediate = opcode == send_last_immediate || opcode == send_only_immediate;
    const bool key = opcode == send_last_invalidate || opcode == send_only_invalidate;
    return (packet.shape.first ? kFirstPart : 0) | (packet.shape.last ? kLastPart : 0) |
           (immediate ? kCarriesImmediate : 0) | (key ? kCarriesKey : 0) |
           (packet.shape.last && packet.solicited ? kSolicitedFrame : 0);
}

Taken taken_of(RequestFeeder::Fed fed) noexcept {
    switch (fed) {
        case RequestFeeder::Fed::later:
            return Taken::later;
        case RequestFeeder::Fed::malformed:
            return Taken::malformed;
        default:
            return Taken::done;
    }
}

RemoteAtomic operation_of(const WirePacket& packet) noexcept {
    if (packet.opcode == PacketOpcode::masked_atomic) return packet.read<RemoteAtomic>();
    const auto header = packet.read<AtomicHeader>();
    RemoteAtomic operation;
    operation.address = header.address.native();
    operation.key = header.key.native();
    operation.swaps = packet.opcode == PacketOpcode::compare_swap ? 1 : 0;
    operation.swap_or_add = header.swap_or_add.native();
    operation.compare = header.compare.native();
    return operation;
}

}  // namespace

static_assert(sizeof(RemoteAtomic) == kMaskedAtomicBody);

Taken PacketFeeder::take(const WirePacket& packet) noexcept {
    if (reads_.unfed()) return go_on_reading();
    if (feeder_.reads_again()) return Taken::later;
    const std::uint64_t taken = feeder_.taken();
    const std::int64_t signed_number = space_.number_of(packet.sequence, taken);
    if (signed_number <= 0) return Taken::done;
    const auto number = static_cast<std::uint64_t>(signed_number);
    if (number <= taken) return take_earlier(packet, number);
    told_.read_again = 0;
    if (number > taken + 1) {
        told_.gap |= !told_.gap_told;
        return Taken::done;
    }
    const Taken result = take_next(packet);
    if (result == Taken::done && !dropped(number)) {
        told_.gap = told_.gap_told = false;
        const bool answered =
            packet.opcode == PacketOpcode::read_request || packet.shape.extended >= kMinAtomic;
        if (packet.asks && !answered) told_.asked = number;
    }
    return result;
}

// It was not taken: there is no room behind a message that waits.
bool PacketFeeder::dropped(std::uint64_t number) noexcept {
    if (feeder_.taken() >= number) return false;
    told_.dropped = true;
    return true;
}

Taken PacketFeeder::take_earlier(const WirePacket& packet, std::uint64_t number) noexcept {
    if (packet.opcode == PacketOpcode::read_request) return take_read(packet, number);
    told_.again = true;
    if (packet.shape.extended >= kMinAtomic) kept_.repeat(number);
    return Taken::done;
}

Taken PacketFeeder::take_next(const WirePacket& packet) noexcept {
    using enum PacketOpcode;
    if (packet.opcode == read_request) return take_read(packet, feeder_.taken() + 1);
    if (packet.shape.extended >= kMinAtomic) return take_atomic(packet);
    const bool write = packet.opcode >= write_first && packet.opcode <= write_only_immediate;
    const auto kind = write ? Message::Kind::write : Message::Kind::send;
    const bool follows =
        packet.shape.first ? message_.kind == Message::Kind::none : message_.kind == kind;
    if (!follows) return Taken::malformed;
    return write ? take_write(packet) : take_send(packet);
}

Taken PacketFeeder::take_send(const WirePacket& packet) noexcept {
    const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
    MessageBody body{message_.total + bytes, 0};
    if (packet.shape.extended != 0) body.immediate = packet.read<ImmediateHeader>().raw;
    Frame frame;
    frame.header.kind = FrameKind::send;
    frame.header.flags = flags_of_send(packet);
    frame.header.number = feeder_.taken() + 1;
    frame.body = std::as_bytes(std::span(&body, 1));
    frame.apart = &packet.payload;
    const Taken result = taken_of(feeder_.feed(frame));
    if (feeder_.taken() != frame.header.number) return result;
    message_.kind = packet.shape.last ? Message::Kind::none : Message::Kind::send;
    message_.total = packet.shape.last ? 0 : body.total;
    return result;
}

Taken PacketFeeder::take_write(const WirePacket& packet) noexcept {
    const std::uint64_t bytes = packet.payload.size();
    Message next = message_;
    std::size_t remote = 0;
    if (packet.shape.first) {
        const auto header = packet.read<RemoteHeader>();
        next = {Message::Kind::write, header.address.native(), header.bytes.native(),
                header.key.native(), header.bytes.native()};
        remote = sizeof header;
    }
    if (packet.shape.last ? bytes != next.left : bytes >= next.left) return Taken::malformed;
    const WriteBody body{next.address, next.key, 0};
    MessageBody notice{next.total, 0};
    const bool immediate = packet.shape.extended > remote;
    if (immediate) notice.immediate = packet.read<ImmediateHeader>(remote).raw;
    Frame frame;
    frame.header.kind = FrameKind::write;
    frame.header.flags = packet.solicited ? kSolicitedFrame : 0;
    frame.header.number = feeder_.taken() + 1;
    frame.body = std::as_bytes(std::span(&body, 1));
    frame.apart = &packet.payload;
    frame.notice = immediate ? &notice : nullptr;
    const Taken result = taken_of(feeder_.feed(frame));
    if (feeder_.taken() != frame.header.number) return result;
    next.address += bytes, next.left -= bytes;
    message_ = packet.shape.last ? Message{} : next;
    return result;
}

// Cards ask again for what they miss alone, and remember nothing of what they answered: so a part
// that is not kept is judged and read again.
Taken PacketFeeder::take_read(const WirePacket& packet, std::uint64_t number) noexcept {
    const auto request = packet.read<RemoteHeader>();
    const std::uint64_t last = reads_.last_of(number, request.bytes.native());
    const std::uint64_t taken = feeder_.taken();
    // Behind a part of its own rest it would not be read.
    const bool is_last_part = last > taken && feeder_.has_part();
    const bool again = foreign_ && number <= taken && !is_last_part && kept_.lacks(number);
    if (number <= taken && !again) kept_.repeat(number);
    if (again) told_.read_again = number;
    told_.again |= number <= taken && (!again || words_.refused != 0);
    if (last <= taken && !again) return Taken::done;
    if (last > taken && message_.kind != Message::Kind::none) return Taken::malformed;
    using Asks = ReadFeeder::Asks;
    const auto begun = reads_.begin(request, number, again ? Asks::all : Asks::rest);
    return begun == RequestFeeder::Fed::done ? go_on_reading() : taken_of(begun);
}

Taken PacketFeeder::go_on_reading() noexcept {
    const std::uint64_t before = feeder_.taken();
    const RequestFeeder::Fed fed = reads_.go_on();
    if (fed == RequestFeeder::Fed::dropped) told_.dropped = true;
    if (fed == RequestFeeder::Fed::done && feeder_.taken() != before)
        told_.gap = told_.gap_told = false;
    return taken_of(fed);
}

Taken PacketFeeder::take_atomic(const WirePacket& packet) noexcept {
    if (message_.kind != Message::Kind::none) return Taken::malformed;
    const RemoteAtomic operation = operation_of(packet);
    Frame frame;
    frame.header.kind = FrameKind::atomic;
    frame.header.number = feeder_.taken() + 1;
    frame.body = std::as_bytes(std::span(&operation, 1));
    return taken_of(feeder_.feed(frame));
}

}  // namespace verbatim::softnic
