// Delivery of datagrams into receives.
#include "datagram_receiver.hpp"

#include <array>
#include <cstring>

#include "../ports/roce/packets/packet_headers.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

// Messages per sender and call.
constexpr int kMessagesPerRun = 16;

// What the network header said, at the end of the route (InfiniBand Architecture Specification,
// annex A17.4.5.1): the kernel keeps some of it to itself.
GlobalRoute route_of(const DatagramWire& wire, const DatagramWire::Arrived& arrived) noexcept {
    const PacketOrigin& origin = arrived.origin;
    PacketHeaders headers({origin.address, origin.port}, wire.place());
    headers.set_traffic(origin.traffic.traffic_class, origin.traffic.hops);
    std::array<std::byte, PacketHeaders::kMostBytes> bytes;
    headers.write(bytes, arrived.datagram_bytes, origin.identification);
    GlobalRoute route{};
    std::memcpy(route.data() + route.size() - headers.ip_bytes(), bytes.data(), headers.ip_bytes());
    return route;
}

// As a record of a ring would have it.
RecordHeader record_of(const WirePacket& packet) noexcept {
    RecordHeader record;
    record.bytes = static_cast<std::uint32_t>(packet.payload.size());
    record.flags = kFirstRecord | kLastRecord | (packet.solicited ? kSolicitedRecord : 0);
    record.total = packet.read<DatagramHeader>().queue_key.native();
    if (packet.opcode == PacketOpcode::datagram_immediate) {
        record.flags |= kHasImmediate;
        record.immediate = packet.read<ImmediateHeader>(sizeof(DatagramHeader)).raw;
    }
    return record;
}

unsigned version_at(const GlobalRoute& route, std::size_t offset) noexcept {
    return std::to_integer<unsigned>(route[offset]) >> 4;
}

// What completions say of the sender.
mlx5::Cqe sender_of(std::uint32_t sender, const GlobalRoute& route) noexcept {
    constexpr std::size_t kIpv4Offset = 20;
    constexpr unsigned kVersion4 = 4, kVersion6 = 6;
    mlx5::Cqe cqe;
    // UCX goes by the kind of the route when it looks whether a datagram is for its address.
    std::uint32_t kind = 0;
    if (version_at(route, 0) == kVersion6)
        kind = mlx5::kSenderOverUdp | mlx5::kSenderIpv6Route;
    else if (version_at(route, kIpv4Offset) == kVersion4)
        kind = mlx5::kSenderOverUdp | mlx5::kSenderIpv4Route;
    const mlx5::be32 from(mlx5::kSenderHasRoute | kind | sender);
    std::memcpy(cqe.scatter.data() + mlx5::kCqeSenderOffset, &from, sizeof from);
    return cqe;
}

}  // namespace

void DatagramReceiver::run(ReceiveEntries& entries, ReceivedMessage& message,
                           ReceiveCounts& counts) noexcept {
    DatagramWire* const wire = shared_->wire.load(std::memory_order_acquire);
    if (wire != nullptr) run_wire(*wire, entries, message, counts);
    for (auto* source = shared_->sources.first(); source != nullptr; source = source->next) {
        for (int budget = kMessagesPerRun; budget != 0 && shared_->receives(); --budget) {
            RecordHeader record;
            const std::byte* payload = nullptr;
            const auto peek = source->ring.peek(record, payload);
            if (peek == ChannelReceiver::Peek::nothing) break;
            if (peek == ChannelReceiver::Peek::broken) {
                // This sender is not listened to any more; the others are.
                source->ring.set_state(ReceiverState::closed);
                source->broken.store(true);
                break;
            }
            if ((record.flags & kFillerRecord) == 0 && !source->replaced &&
                deliver(entries, message, {source->number, shared_->traits.route, record, payload}))
                counts.add_message(record.bytes);
            source->ring.release(record);
        }
    }
}

void DatagramReceiver::run_wire(DatagramWire& wire, ReceiveEntries& entries,
                                ReceivedMessage& message, ReceiveCounts& counts) noexcept {
    wire.quiet();
    DatagramWire::Arrived arrived;
    for (int budget = kMessagesPerRun; budget != 0 && shared_->receives(); --budget) {
        if (!wire.peek(arrived)) return;
        const GlobalRoute route = route_of(wire, arrived);
        const WirePacket& packet = arrived.packet;
        const std::uint32_t sender = packet.read<DatagramHeader>().source.native() & kSequenceMask;
        const RecordHeader record = record_of(packet);
        if (deliver(entries, message, {sender, route, record, packet.payload.data()}))
            counts.add_message(record.bytes);
        wire.pop();
    }
}

// False: it was dropped, or the queue pair failed.
bool DatagramReceiver::deliver(ReceiveEntries& entries, ReceivedMessage& message,
                               const Datagram& datagram) noexcept {
    const RecordHeader& record = datagram.record;
    if (record.total != shared_->limits.queue_key.load(std::memory_order_relaxed)) return false;
    if (!entries.held() && !take(entries)) return false;
    const std::uint64_t bytes = kGlobalRouteBytes + std::uint64_t{record.bytes};
    PieceList list;
    message.access().enter();
    const Syndrome syndrome = ReceivedMessage::list(entries, list);
    const bool fits = bytes <= list.total;
    if (syndrome == kNoSyndrome && fits) {
        scatter(list, 0, datagram.route.data(), datagram.route.size());
        scatter(list, kGlobalRouteBytes, datagram.payload, record.bytes);
    }
    message.access().leave();
    if (syndrome != kNoSyndrome) entries.fail(syndrome, Syndrome::remote_operation);
    // The receive stays for a message that fits.
    if (syndrome != kNoSyndrome || !fits) return false;
    message.begin(bytes);
    return message.complete(entries, record, sender_of(datagram.sender, datagram.route));
}

// False: nothing is posted.
bool DatagramReceiver::take(ReceiveEntries& entries) noexcept {
    const ReceiveEntries::Taken taken = entries.take();
    if (taken == ReceiveEntries::Taken::broken)
        entries.fail(Syndrome::local_queue_pair, Syndrome::remote_operation);
    return taken == ReceiveEntries::Taken::entry;
}

}  // namespace verbatim::softnic
