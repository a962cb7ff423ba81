// Messages as packets.
#include "datagram_wire.hpp"

#include <cstring>
#include <utility>

#include "datagram_ways.hpp"

namespace verbatim::softnic {
namespace {

// A packet that is being made: headers, the program's pieces, padding and checksum.
struct Composed {
    Composed(const DatagramWire::Message& message, std::uint32_t sender, std::uint32_t sequence,
             const PieceList& bytes) noexcept;
    void seal(const PacketChecksum& checksum) noexcept;
    std::span<const iovec> view() const noexcept { return std::span(pieces).first(count); }

    struct Head {
        BaseHeader base;
        DatagramHeader datagram;
        ImmediateHeader immediate;
    } head;
    std::array<std::byte, 2 * kChecksumBytes> trailer{};  // padding and checksum
    std::array<iovec, kMaxPieces + 2> pieces;
    std::size_t count = 0;
    std::size_t padding;
};
static_assert(sizeof(Composed::Head) == 24);

Composed::Composed(const DatagramWire::Message& message, std::uint32_t sender,
                   std::uint32_t sequence, const PieceList& bytes) noexcept
    : padding(-bytes.total & 3) {
    constexpr unsigned kPaddingShift = 4;
    const bool has_immediate = message.immediate != nullptr;
    head.base.opcode = static_cast<std::uint8_t>(has_immediate ? PacketOpcode::datagram_immediate
                                                               : PacketOpcode::datagram);
    head.base.flags = static_cast<std::uint8_t>(
        kMigratedPacket | (message.solicited ? kSolicitedPacket : 0) | (padding << kPaddingShift));
    head.base.partition = mlx5::be16(kDefaultPartition);
    head.base.queue_pair = mlx5::be32(message.queue_pair);
    head.base.sequence = mlx5::be32(sequence);
    head.datagram = {mlx5::be32(message.queue_key), mlx5::be32(sender)};
    if (has_immediate) head.immediate.raw = *message.immediate;
    pieces[count++] = {&head, sizeof head - (has_immediate ? 0 : sizeof head.immediate)};
    for (std::size_t i = 0; i != bytes.count; ++i)
        pieces[count++] = {bytes.items[i].data, bytes.items[i].bytes};
    pieces[count++] = {trailer.data(), padding};
}

void Composed::seal(const PacketChecksum& checksum) noexcept {
    const std::uint32_t sum = checksum.of(view());
    std::memcpy(trailer.data() + padding, &sum, sizeof sum);
    pieces[count - 1].iov_len += sizeof sum;
}

}  // namespace

DatagramWire::DatagramWire(std::shared_ptr<RoceEndpoint> endpoint, std::uint32_t queue_pair,
                           PacketService& service, const InboxNotice& notice)
    : endpoint_(std::move(endpoint)),
      queue_pair_(queue_pair),
      capture_(service.capture()),
      inbox_(notice),
      ways_(std::make_unique<DatagramWays>(endpoint_, service)) {
    endpoint_->add(queue_pair_, inbox_);
}

DatagramWire::~DatagramWire() { close(); }

void DatagramWire::close() noexcept { endpoint_->remove(queue_pair_); }

const StreamPlace& DatagramWire::place() const noexcept { return endpoint_->place(); }

void DatagramWire::look() noexcept {
    if (inbox_.empty()) endpoint_->drain(&inbox_);
}

bool DatagramWire::carries(const std::array<std::uint8_t, 16>& address) noexcept {
    return address[0] != 0xfe || (address[1] & 0xc0) != 0x80;
}

// Its number is taken only once it goes.
bool DatagramWire::send(const Message& message, const PieceList& bytes) noexcept {
    DatagramWays::Way* const way = ways_->to(message.address);
    if (way == nullptr) return true;
    Composed packet(message, queue_pair_, sequence_, bytes);
    packet.seal(way->checksum);
    const PacketPieces pieces(packet.view());
    if (way->back_end->send(std::span(&pieces, 1)) == 0) return false;
    sequence_ = (sequence_ + 1) & kSequenceMask;
    return true;
}

bool DatagramWire::peek(Arrived& arrived) noexcept {
    for (; !inbox_.empty(); inbox_.pop()) {
        const auto datagram = inbox_.front();
        arrived.origin = inbox_.origin();
        arrived.datagram_bytes = datagram.size();
        if (capture_ != nullptr) [[unlikely]] {
            const iovec piece{const_cast<std::byte*>(datagram.data()), datagram.size()};
            const StreamPlace from{arrived.origin.address, arrived.origin.port};
            capture_->add(CaptureFile::Direction::inbound, PacketHeaders(from, endpoint_->place()),
                          PacketPieces(std::span(&piece, 1), arrived.origin.identification));
        }
        if (parse_message(datagram, kMaxPacketPayload, arrived.packet)) return true;
    }
    return false;
}

}  // namespace verbatim::softnic
