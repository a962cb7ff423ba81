// What a peer, or anybody, may send to the socket of the udp port. The first byte of the input
// chooses the path MTU.
#include <array>
#include <cstring>

#include "fuzz_target.hpp"
#include "ports/roce/packets/packet.hpp"

using namespace verbatim;
using namespace verbatim::softnic;

namespace {

bool is_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
    return part.empty() || (part.data() >= whole.data() &&
                            part.data() + part.size() <= whole.data() + whole.size());
}

std::vector<std::byte> seed_of(PacketOpcode opcode, std::size_t extended, std::size_t payload) {
    BaseHeader base;
    base.opcode = static_cast<std::uint8_t>(opcode);
    base.partition = mlx5::be16(kDefaultPartition);
    std::vector<std::byte> bytes(1 + sizeof base + extended + payload + kChecksumBytes);
    std::memcpy(bytes.data() + 1, &base, sizeof base);
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    fuzz::Input input(data, bytes);
    const auto choice = static_cast<unsigned>(input.number(1));
    const std::size_t mtu = std::size_t{1}
                            << (kMinMtuLog2 + choice % (kMaxMtuLog2 - kMinMtuLog2 + 1));
    const auto datagram = input.take(input.left());
    WirePacket packet;
    const bool is_message = parse_message(datagram, mtu, packet);
    if (is_message) fuzz::require(packet.extended.size() >= sizeof(DatagramHeader));
    if (!is_message && !parse_packet(datagram, mtu, packet)) return 0;
    fuzz::require(packet.shape.known && packet.payload.size() <= mtu);
    fuzz::require(packet.extended.size() == packet.shape.extended);
    fuzz::require(is_inside(packet.extended, datagram) && is_inside(packet.payload, datagram));
    fuzz::require(packet.sequence <= kSequenceMask && packet.queue_pair <= kSequenceMask);
    if (packet.shape.answers) fuzz::require(!packet.shape.first && !packet.shape.last);
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    return {seed_of(PacketOpcode::send_first, 0, 256),
            seed_of(PacketOpcode::send_only, 0, 8),
            seed_of(PacketOpcode::write_only_immediate, 20, 64),
            seed_of(PacketOpcode::read_request, 16, 0),
            seed_of(PacketOpcode::compare_swap, 28, 0),
            seed_of(PacketOpcode::masked_atomic, 56, 0),
            seed_of(PacketOpcode::atomic_acknowledge, 12, 0),
            seed_of(PacketOpcode::datagram, 8, 64),
            seed_of(PacketOpcode::datagram_immediate, 12, 0),
            seed_of(PacketOpcode::congestion_notice, 16, 0),
            seed_of(PacketOpcode::state, 4, 0)};
}
