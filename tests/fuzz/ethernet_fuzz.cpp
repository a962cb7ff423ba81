// What anybody may send to the Ethernet link of the dpdk port.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz_target.hpp"
#include "ports/dpdk/neighbour_packets.hpp"

using namespace verbatim;
using namespace verbatim::softnic;

namespace {

constexpr MacAddress kMac{2, 0, 0, 0, 0, 0xa}, kOther{2, 0, 0, 0, 0, 0xb};
constexpr IpAddress kIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
constexpr IpAddress kIpv6{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

std::vector<std::byte> datagram_of(const IpAddress& address) {
    constexpr std::size_t kPacket = 24;
    std::array<std::byte, DatagramHeaders::kMost> headers;
    const StreamPlace place{address, 4791};
    const std::size_t used = DatagramHeaders(kMac, place, place).write(kPacket, headers);
    std::vector<std::byte> frame(used + kPacket);
    std::copy_n(headers.begin(), used, frame.begin());
    return frame;
}

std::vector<std::byte> neighbour_of(NeighbourPacket::Kind kind, const IpAddress& address) {
    const NeighbourFrame frame = neighbour_frame({kind, kMac, kOther, address, address});
    return {frame.view().begin(), frame.view().end()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    fuzz::Input input(data, bytes);
    const auto given = input.take(input.left());
    std::vector<std::byte> frame(given.begin(), given.end());
    for (const IpAddress& own : {kIpv4, kIpv6}) {
        FrameDatagram datagram;
        if (!parse_datagram(frame, own, datagram)) continue;
        const auto& inside = datagram.bytes;
        fuzz::require(inside.data() >= frame.data() &&
                      inside.data() + inside.size() <= frame.data() + frame.size());
        fuzz::require(inside.size() >= 16 && datagram.queue_pair <= 0xffffff);
        fuzz::require(is_mapped(datagram.from) == (own == kIpv4));
    }
    NeighbourPacket packet;
    if (!parse_neighbour(frame, packet)) return 0;
    // What it says makes sense as an answer: it is one when it is parsed again.
    const NeighbourFrame answer = neighbour_frame(
        {NeighbourPacket::Kind::answer, kMac, packet.sender_mac, packet.target, packet.sender});
    fuzz::require(answer.count <= NeighbourFrame::kMost);
    NeighbourPacket again;
    if (packet.kind != NeighbourPacket::Kind::question) return 0;
    fuzz::require(parse_neighbour(answer.view(), again));
    fuzz::require(again.sender == packet.target && again.sender_mac == kMac);
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    using Kind = NeighbourPacket::Kind;
    return {datagram_of(kIpv4),
            datagram_of(kIpv6),
            neighbour_of(Kind::question, kIpv4),
            neighbour_of(Kind::answer, kIpv4),
            neighbour_of(Kind::question, kIpv6),
            neighbour_of(Kind::answer, kIpv6)};
}
