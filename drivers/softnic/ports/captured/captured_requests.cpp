// Packets as the udp port makes them.
#include "captured_requests.hpp"

#include <algorithm>
#include <cstring>

#include <verbatim/mlx5/encode.hpp>

#include "../roce/packets/message_opcodes.hpp"
#include "../roce/packets/packet.hpp"

namespace verbatim::softnic {
namespace {

// Where RoCE is received, and where the packets of a queue pair come from.
constexpr std::uint16_t kFirstSource = 0xc000, kSourceMask = 0x3fff;

StreamPlace source(const std::array<std::uint8_t, 16>& address, std::uint32_t number) noexcept {
    return {address, static_cast<std::uint16_t>(kFirstSource | (number & kSourceMask))};
}

std::uint32_t sequence_of(std::uint64_t number) noexcept {
    return static_cast<std::uint32_t>(number) & kSequenceMask;
}

}  // namespace

CapturedRequests::CapturedRequests(CaptureFile& file, const CapturedEnds& ends) noexcept
    : sent_(file, CaptureFile::Direction::outbound, source(ends.own, ends.own_queue_pair),
            {ends.peer, kRocePort}),
      received_(file, CaptureFile::Direction::inbound, source(ends.peer, ends.peer_queue_pair),
                {ends.own, kRocePort}),
      outgoing_(sent_, {source(ends.own, ends.own_queue_pair), {ends.peer, kRocePort}},
                ends.peer_queue_pair),
      incoming_(received_, {source(ends.peer, ends.peer_queue_pair), {ends.own, kRocePort}},
                ends.own_queue_pair) {}

void CapturedRequests::put(const void* from, std::size_t bytes) noexcept {
    std::memcpy(packet_.data() + used_, from, bytes);
    used_ += bytes;
}

void CapturedRequests::put(const PieceList& bytes, std::uint64_t skip, std::size_t count) noexcept {
    for_each_part(bytes, skip, count,
                  [this](const std::byte* from, std::size_t part) { put(from, part); });
}

void CapturedRequests::end(PacketOutput& way, const Head& head) noexcept {
    Gathered body;
    body.runs[body.count++] = {packet_.data(), used_};
    body.bytes = used_;
    way.add(head, body);
    way.flush();
    used_ = 0;
}

CapturedRequests::Numbers CapturedRequests::add(const PortRequest& request,
                                                const PieceList& bytes) noexcept {
    used_ = 0;
    if (request.atomic != nullptr) {
        const AtomicPacket packet(*request.atomic);
        put(packet.data(), packet.bytes());
        end(outgoing_, {.opcode = packet.opcode(), .sequence = sequence_of(next_)});
        ++next_;
        return {next_ - 1, next_ - 1};
    }
    return request.opcode == mlx5::Opcode::read ? add_read(request, bytes.total)
                                                : add_message(request, bytes);
}

CapturedRequests::Numbers CapturedRequests::add_read(const PortRequest& request,
                                                     std::uint64_t bytes) noexcept {
    const std::uint64_t first = next_,
                        packets = std::max<std::uint64_t>((bytes + kMtu - 1) / kMtu, 1);
    put(RemoteHeader{SplitWord(request.address), mlx5::be32(request.key),
                     mlx5::be32(static_cast<std::uint32_t>(bytes))});
    end(outgoing_, {.opcode = PacketOpcode::read_request, .sequence = sequence_of(first)});
    next_ += packets;
    return {first, next_ - 1};
}

CapturedRequests::Numbers CapturedRequests::add_message(const PortRequest& request,
                                                        const PieceList& bytes) noexcept {
    const mlx5::Opcode opcode = request.opcode;
    const bool sends = mlx5::is_send(opcode);
    const bool notices =
        sends ? opcode != mlx5::Opcode::send : opcode == mlx5::Opcode::write_immediate;
    const std::uint64_t number = next_;
    std::uint64_t done = 0;
    for (bool first = true, last = false; !last; first = false, ++next_) {
        const std::uint64_t part = std::min<std::uint64_t>(bytes.total - done, kMtu);
        last = done + part == bytes.total;
        if (first && !sends)
            put(RemoteHeader{SplitWord(request.address), mlx5::be32(request.key),
                             mlx5::be32(static_cast<std::uint32_t>(bytes.total))});
        if (last && notices) put(ImmediateHeader{request.immediate});
        put(bytes, done, part);
        end(outgoing_, {.opcode = sends ? send_opcode(opcode, first, last)
                                        : write_opcode(notices, first, last),
                        .solicited = last && request.solicited,
                        .asks = last && request.awaited,
                        .sequence = sequence_of(next_)});
        done += part;
    }
    return {number, next_ - 1};
}

void CapturedRequests::acknowledge(std::uint64_t number) noexcept {
    put(answer_header(kAcknowledged, ++messages_));
    end(incoming_, {.opcode = PacketOpcode::acknowledge, .sequence = sequence_of(number)});
}

void CapturedRequests::refuse(std::uint64_t number, mlx5::Syndrome syndrome) noexcept {
    put(answer_header(refusal_of(static_cast<std::uint8_t>(syndrome)), messages_));
    end(incoming_, {.opcode = PacketOpcode::acknowledge, .sequence = sequence_of(number)});
}

void CapturedRequests::respond(const Numbers& numbers, const PieceList& bytes) noexcept {
    ++messages_;
    std::uint64_t done = 0;
    for (std::uint64_t number = numbers.first; number <= numbers.last; ++number) {
        const bool first = number == numbers.first, last = number == numbers.last;
        const std::uint64_t part = std::min<std::uint64_t>(bytes.total - done, kMtu);
        if (first || last) put(answer_header(kAcknowledged, messages_));
        put(bytes, done, part);
        end(incoming_, {.opcode = response_opcode(first, last), .sequence = sequence_of(number)});
        done += part;
    }
}

void CapturedRequests::respond(std::uint64_t number, const PieceList& before) noexcept {
    std::array<std::byte, sizeof(std::uint64_t)> word{};
    std::size_t used = 0;
    const std::size_t bytes = std::min<std::uint64_t>(before.total, word.size());
    for_each_part(before, 0, bytes, [&](const std::byte* from, std::size_t part) {
        std::memcpy(word.data() + used, from, part);
        used += part;
    });
    if (before.big_endian)
        std::reverse(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(bytes));
    std::uint64_t value = 0;
    std::memcpy(&value, word.data(), sizeof value);
    put(AtomicAnswerHeader{answer_header(kAcknowledged, ++messages_), SplitWord(value)});
    end(incoming_, {.opcode = PacketOpcode::atomic_acknowledge, .sequence = sequence_of(number)});
}

}  // namespace verbatim::softnic
