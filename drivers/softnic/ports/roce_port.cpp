// Requests of the udp port as packets.
#include "roce_port.hpp"

#include <algorithm>
#include <utility>

#include <verbatim/mlx5/encode.hpp>

#include "roce/packets/message_opcodes.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;

namespace {

// The first message of a write to memory that begins within a word ends at one, so that no packet
// of the second one ends within a word.
std::uint64_t message_end(std::uint64_t address, std::uint64_t bytes, std::size_t mtu) noexcept {
    constexpr std::uint64_t kWord = 8;
    const std::uint64_t off = address % kWord;
    return off == 0 || bytes <= mtu ? bytes : mtu - off;
}

}  // namespace

PortAnswer RocePort::post(const PortRequest& request, const PieceList& bytes) noexcept {
    if (mlx5::is_send(request.opcode)) return send(request, bytes);
    if (request.atomic != nullptr) {
        const Ticket ticket = fetches_.ask(*request.atomic);
        return ticket == 0 ? kPortWaits : handed_over(ticket);
    }
    return request.opcode == Opcode::read ? read(request, bytes) : write(request, bytes);
}

void RocePort::end_turn() noexcept {
    const bool asked = fetches_.take_news();
    if (std::exchange(news_, false) || asked) flush();
}

PortAnswer RocePort::handed_over(Ticket ticket) noexcept {
    handed_over_ = message_end_ = 0;
    begun_ = false;
    return {PortOutcome::accepted, kNoSyndrome, ticket};
}

void RocePort::put_payload(const PieceList& bytes, std::size_t count) noexcept {
    for_each_part(bytes, handed_over_, count,
                  [this](const std::byte* from, std::size_t part) { packets_.add(from, part); });
    handed_over_ += count;
    packets_.commit();
    begun_ = news_ = true;
}

PortAnswer RocePort::send(const PortRequest& request, const PieceList& bytes) noexcept {
    return put_send(request, bytes) ? handed_over(last_) : kPortWaits;
}

// False: there is no room for the rest now.
bool RocePort::put_send(const PortRequest& request, const PieceList& bytes) noexcept {
    for (bool last = false; !last;) {
        const std::uint64_t part = std::min<std::uint64_t>(bytes.total - handed_over_, mtu_);
        last = handed_over_ + part == bytes.total;
        const ImmediateHeader immediate{request.immediate};
        const std::size_t extended = last && request.opcode != Opcode::send ? sizeof immediate : 0;
        if (!packets_.fits(extended + part)) return false;
        last_ = packets_.begin({.bytes = static_cast<std::uint16_t>(extended + part),
                                .opcode = send_opcode(request.opcode, !begun_, last),
                                .solicited = last && request.solicited});
        packets_.add(&immediate, extended);
        if (last && request.awaited) packets_.await();
        put_payload(bytes, part);
    }
    return true;
}

PortAnswer RocePort::write(const PortRequest& request, const PieceList& bytes) noexcept {
    if (bytes.total == 0 && request.opcode != Opcode::write_immediate) return {};
    return put_write(request, bytes) ? handed_over(last_) : kPortWaits;
}

// False: there is no room for the rest now.
bool RocePort::put_write(const PortRequest& request, const PieceList& bytes) noexcept {
    for (bool ends = false; !ends;) {
        const bool first = handed_over_ == message_end_;
        const std::uint64_t address = request.address + handed_over_;
        const std::uint64_t left = bytes.total - handed_over_;
        const std::uint64_t end =
            first ? handed_over_ + message_end(address, left, mtu_) : message_end_;
        const std::uint64_t part = std::min<std::uint64_t>(end - handed_over_, mtu_);
        const bool last = handed_over_ + part == end;
        ends = last && end == bytes.total;
        const bool immediate = ends && request.opcode == Opcode::write_immediate;
        const RemoteHeader remote{SplitWord(address), mlx5::be32(request.key),
                                  mlx5::be32(static_cast<std::uint32_t>(end - handed_over_))};
        const ImmediateHeader notice{request.immediate};
        const std::size_t extended = (first ? sizeof remote : 0) + (immediate ? sizeof notice : 0);
        if (!packets_.fits(extended + part)) return false;
        last_ = packets_.begin({.bytes = static_cast<std::uint16_t>(extended + part),
                                .opcode = write_opcode(immediate, first, last),
                                .solicited = immediate && request.solicited});
        if (first) packets_.add(&remote, sizeof remote);
        if (immediate) packets_.add(&notice, sizeof notice);
        message_end_ = end;
        if (ends && request.awaited) packets_.await();
        put_payload(bytes, part);
    }
    return true;
}

// It waits until all of it was asked for.
PortAnswer RocePort::read(const PortRequest& request, const PieceList& into) noexcept {
    if (into.total == 0) return {};
    if (!begun_) begun_ = fetches_.begin(into.total);
    const Ticket ticket = begun_ ? fetches_.ask(request.address, request.key, into) : 0;
    return ticket == 0 ? kPortWaits : handed_over(ticket);
}

}  // namespace verbatim::softnic
