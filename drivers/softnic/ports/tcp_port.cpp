// Requests of the tcp port as frames.
#include "tcp_port.hpp"

#include <algorithm>
#include <utility>

#include <verbatim/mlx5/encode.hpp>

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

std::uint64_t payload_room(std::size_t room, std::size_t body, std::size_t most) noexcept {
    const std::size_t overhead = sizeof(FrameHeader) + body;
    return room < overhead ? 0 : std::min(room - overhead, most);
}

std::uint8_t carried_flags(const PortRequest& request) noexcept {
    return (request.solicited ? kSolicitedFrame : 0) |
           (request.opcode == Opcode::send_immediate ? kCarriesImmediate : 0) |
           (request.opcode == Opcode::send_invalidate ? kCarriesKey : 0);
}

}  // namespace

PortAnswer TcpPort::post(const PortRequest& request, const PieceList& bytes) noexcept {
    if (mlx5::is_send(request.opcode)) return send(request, bytes);
    if (request.atomic != nullptr) return atomic(*request.atomic);
    return request.opcode == Opcode::read ? read(request, bytes) : write(request, bytes);
}

void TcpPort::end_turn() noexcept {
    const bool asked = fetches_.take_news();
    if (std::exchange(news_, false) || asked) flush();
}

// Bytes of the frame after its header.
void TcpPort::begin(FrameKind kind, std::size_t bytes, std::uint8_t flags) noexcept {
    last_ = frames().begin(kind, bytes, flags);
}

void TcpPort::add_payload(const PieceList& bytes, std::size_t count) noexcept {
    for_each_part(bytes, handed_over_, count,
                  [this](const std::byte* from, std::size_t part) { frames().add(from, part); });
    handed_over_ += count;
}

void TcpPort::commit() noexcept {
    frames().commit();
    news_ = true;
}

PortAnswer TcpPort::handed_over(Ticket ticket) noexcept {
    handed_over_ = 0;
    begun_ = false;
    return {PortOutcome::accepted, kNoSyndrome, ticket};
}

PortAnswer TcpPort::send(const PortRequest& request, const PieceList& bytes) noexcept {
    for (bool last = false; !last; begun_ = true) {
        const std::uint64_t left = bytes.total - handed_over_;
        const std::size_t free = frames().room();
        if (free < sizeof(FrameHeader) + sizeof(MessageBody)) return kPortWaits;
        const std::uint64_t part =
            next_part(0, left, payload_room(free, sizeof(MessageBody), kMaxMessagePart));
        last = part == left;
        if (part == 0 && !last) return kPortWaits;
        begin(FrameKind::send, sizeof(MessageBody) + part,
              (begun_ ? 0 : kFirstPart) | (last ? kLastPart | carried_flags(request) : 0));
        const MessageBody body{static_cast<std::uint32_t>(bytes.total), request.immediate};
        frames().add(&body, sizeof body);
        add_payload(bytes, part);
        commit();
    }
    return handed_over(last_);
}

PortAnswer TcpPort::write(const PortRequest& request, const PieceList& bytes) noexcept {
    const bool immediate = request.opcode == Opcode::write_immediate;
    if (bytes.total == 0 && !immediate) return {};
    if (!put_write(request, bytes)) return kPortWaits;
    if (!immediate) return handed_over(last_);
    if (frames().room() < sizeof(FrameHeader) + sizeof(MessageBody)) {
        begun_ = true;
        return kPortWaits;
    }
    begin(FrameKind::notice, sizeof(MessageBody), request.solicited ? kSolicitedFrame : 0);
    const MessageBody body{static_cast<std::uint32_t>(bytes.total), request.immediate};
    frames().add(&body, sizeof body);
    commit();
    return handed_over(last_);
}

// False: there is no room for the rest now.
bool TcpPort::put_write(const PortRequest& request, const PieceList& bytes) noexcept {
    while (handed_over_ != bytes.total) {
        const WriteBody body{request.address + handed_over_, request.key, 0};
        const std::uint64_t part =
            next_part(body.address, bytes.total - handed_over_,
                      payload_room(frames().room(), sizeof body, kMaxWritePart));
        if (part == 0) return false;
        begin(FrameKind::write, sizeof body + part);
        frames().add(&body, sizeof body);
        add_payload(bytes, part);
        commit();
    }
    return true;
}

// It waits until all of it was asked for.
PortAnswer TcpPort::read(const PortRequest& request, const PieceList& into) noexcept {
    if (into.total == 0) return {};
    if (!begun_) begun_ = fetches_.begin(into.total);
    const Ticket ticket = begun_ ? fetches_.ask(request.address, request.key, into) : 0;
    return ticket == 0 ? kPortWaits : handed_over(ticket);
}

PortAnswer TcpPort::atomic(const RemoteAtomic& operation) noexcept {
    const Ticket ticket = fetches_.ask(operation);
    return ticket == 0 ? kPortWaits : handed_over(ticket);
}

}  // namespace verbatim::softnic
