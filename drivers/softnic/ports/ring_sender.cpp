// Records of the ring. What the owner of the memory does with them: one_sided_requests.cpp,
// remote_copy.cpp, remote_atomic.cpp.
#include "ring_sender.hpp"

#include <algorithm>

#include "../host/shared_store.hpp"
#include "../rings/remote_copy.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

// What would be smaller goes behind the end of the ring, unless the request is as small.
constexpr std::uint64_t kSmallestPiece = 16;

RemoteCopy piece_of(const PortRequest& request, std::uint64_t offset,
                    std::uint64_t bytes) noexcept {
    return {request.address + offset, request.key, static_cast<std::uint32_t>(bytes)};
}

// What the last record of a message brings beside its bytes.
std::uint32_t carried_by(const PortRequest& request) noexcept {
    const std::uint32_t solicited = request.solicited ? kSolicitedRecord : 0;
    if (request.opcode == Opcode::send_immediate) return kHasImmediate | solicited;
    return (request.opcode == Opcode::send_invalidate ? kHasInvalidate : 0) | solicited;
}

}  // namespace

void RingSender::reset() noexcept {
    tickets_ = sent_ = atomics_asked_ = atomics_taken_ = 0;
    pieces_asked_ = pieces_taken_ = taken_ = 0;
    queue_ = told_queue_ = 0;
    one_sided_.store(0, std::memory_order_relaxed);
    message_begun_ = false;
    owes_wake_.store(false, std::memory_order_relaxed);
}

PortAnswer RingSender::wait_for_peer(bool noteworthy) noexcept {
    if (shared_->connection.outgoing.broken()) return refusal(Syndrome::remote_operation);
    wake_receiver(noteworthy);
    return kPortWaits;
}

// If it may sleep at all.
void RingSender::wake_receiver(bool noteworthy) noexcept {
    if (!shared_->connection.outgoing.wakes_receiver()) [[likely]]
        return;
    owes_wake_.store(!shared_->connection.wake_receiver(noteworthy), std::memory_order_relaxed);
}

// The ring has all of the message. Without reliability nobody waits for its end.
PortAnswer RingSender::handed_over(bool noteworthy) noexcept {
    sent_ = 0;
    wake_receiver(noteworthy);
    if (!shared_->traits.reliable()) return {};
    return {PortOutcome::accepted, kNoSyndrome, ++tickets_};
}

PortAnswer RingSender::handed_over_one_sided(bool noteworthy) noexcept {
    const PortAnswer answer = handed_over(noteworthy);
    one_sided_.store(answer.ticket, std::memory_order_relaxed);
    return answer;
}

// Before the first record for another queue than the last one was for; the peer keeps the number.
// False: there is no room.
bool RingSender::tell_queue() noexcept {
    if (queue_ == told_queue_) [[likely]]
        return true;
    std::size_t capacity = 0;
    if (shared_->connection.outgoing.reserve(capacity, 0) == nullptr) return false;
    shared_->connection.outgoing.commit({0, kQueueRecord | kFirstRecord | kLastRecord, queue_, 0});
    told_queue_ = queue_;
    return true;
}

PortAnswer RingSender::send(const PortRequest& request, const PieceList& bytes) noexcept {
    if (!tell_queue()) return wait_for_peer(true);
    for (bool last = false; !last;) {
        std::size_t capacity = 0;
        std::byte* to = shared_->connection.outgoing.reserve(capacity, bytes.total - sent_);
        if (to == nullptr) return wait_for_peer(true);
        RecordHeader record;
        record.bytes =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(capacity, bytes.total - sent_));
        for_each_part(bytes, sent_, record.bytes, [&](const std::byte* from, std::size_t part) {
            copy_bytes(to, from, part);
            to += part;
        });
        sent_ += record.bytes;
        last = sent_ == bytes.total;
        record.flags =
            (message_begun_ ? 0 : kFirstRecord) | (last ? kLastRecord | carried_by(request) : 0);
        record.total = static_cast<std::uint32_t>(bytes.total);
        record.immediate = request.immediate;
        shared_->connection.outgoing.commit(record);
        message_begun_ = !last;
    }
    return handed_over(request.solicited);
}

PortAnswer RingSender::write(const PortRequest& request, const PieceList& bytes,
                             bool noteworthy) noexcept {
    return put(request, bytes, true) ? handed_over_one_sided(noteworthy) : wait_for_peer(true);
}

bool RingSender::has_room() noexcept {
    std::size_t capacity = 0;
    return tell_queue() && shared_->connection.outgoing.reserve(capacity, 0) != nullptr;
}

PortAnswer RingSender::write_immediate(const PortRequest& request, const PieceList& bytes,
                                       bool crosses) noexcept {
    if (crosses && (!put(request, bytes, false) || !has_room())) return wait_for_peer(true);
    shared_->connection.outgoing.commit({0,
                                         kFirstRecord | kLastRecord | kHasImmediate | kWriteRecord |
                                             (request.solicited ? kSolicitedRecord : 0),
                                         static_cast<std::uint32_t>(bytes.total),
                                         request.immediate});
    return crosses ? handed_over_one_sided(request.solicited) : handed_over(request.solicited);
}

// False: there is no room for the rest now; sent_ remembers where it begins. `last`: nothing
// follows that the peer acknowledges.
bool RingSender::put(const PortRequest& request, const PieceList& bytes, bool last) noexcept {
    if (!tell_queue()) return false;
    while (sent_ != bytes.total) {
        const std::uint64_t left = bytes.total - sent_;
        std::size_t room = 0;
        if (shared_->connection.outgoing.reserve_whole(sizeof(RemoteCopy) +
                                                       std::min(left, kSmallestPiece)) == nullptr)
            return false;
        std::byte* to = shared_->connection.outgoing.reserve(room);
        if (to == nullptr) return false;  // the peer's words are broken since
        const std::uint64_t most = std::min<std::uint64_t>(left, room - sizeof(RemoteCopy));
        const RemoteCopy piece = piece_of(request, sent_, most);
        copy_bytes(to, reinterpret_cast<const std::byte*>(&piece), sizeof piece);
        to += sizeof piece;
        for_each_part(bytes, sent_, most, [&](const std::byte* from, std::size_t part) {
            copy_bytes(to, from, part);
            to += part;
        });
        sent_ += most;
        const bool ends = last && sent_ == bytes.total;
        shared_->connection.outgoing.commit({static_cast<std::uint32_t>(sizeof piece + most),
                                             kPutRecord | kFirstRecord | (ends ? kLastRecord : 0),
                                             0, 0});
    }
    return true;
}

// The request waits until it has all its bytes. Each piece is a message of its own, and nothing
// else is sent meanwhile.
PortAnswer RingSender::read(const PortRequest& request, const PieceList& into) noexcept {
    if (!shared_->traits.reliable()) return refusal(Syndrome::local_queue_pair);
    take_answers(into);
    if (taken_ == into.total) {
        sent_ = taken_ = 0;
        return {};
    }
    // What is refused may be an earlier message, whose completion says so then.
    if (const Syndrome syndrome = refused(); syndrome != kNoSyndrome) {
        const Ticket before = tickets_ - (pieces_asked_ - pieces_taken_);
        return shared_->connection.outgoing.acknowledged() >= before ? refusal(syndrome)
                                                                     : kPortWaits;
    }
    ask_for_pieces(request, into);
    return shared_->connection.outgoing.broken() ? refusal(Syndrome::remote_operation) : kPortWaits;
}

Syndrome RingSender::silence() const noexcept {
    const Syndrome syndrome = refused();
    const bool asked = begun() || pieces_asked_ != pieces_taken_;
    return asked && syndrome != kNoSyndrome ? syndrome : Syndrome::retry_exceeded;
}

void RingSender::take_answers(const PieceList& into) noexcept {
    const Ticket acknowledged = shared_->connection.outgoing.acknowledged();
    while (pieces_taken_ != pieces_asked_ &&
           acknowledged > tickets_ - (pieces_asked_ - pieces_taken_)) {
        const std::uint64_t bytes = std::min<std::uint64_t>(
            shared_->connection.outgoing.answer_bytes(), into.total - taken_);
        scatter(into, taken_, shared_->connection.outgoing.answer(), bytes);
        shared_->connection.outgoing.take_answer();
        ++pieces_taken_;
        taken_ += bytes;
    }
}

void RingSender::ask_for_pieces(const PortRequest& request, const PieceList& into) noexcept {
    bool asked = false;
    while (sent_ != into.total && pieces_asked_ - pieces_taken_ != kAnswers && tell_queue()) {
        const std::uint64_t bytes = std::min<std::uint64_t>(
            shared_->connection.outgoing.answer_bytes(), into.total - sent_);
        const RemoteCopy piece = piece_of(request, sent_, bytes);
        std::byte* const to = shared_->connection.outgoing.reserve_whole(sizeof piece + bytes);
        if (to == nullptr) break;
        copy_bytes(to, reinterpret_cast<const std::byte*>(&piece), sizeof piece);
        shared_->connection.outgoing.commit_question(
            {static_cast<std::uint32_t>(sizeof piece + bytes),
             kGetRecord | kFirstRecord | kLastRecord, 0, 0});
        sent_ += bytes;
        ++pieces_asked_, ++tickets_;
        asked = true;
    }
    if (asked) wake_receiver(true);
}

// The owner checks key and bounds again.
PortAnswer RingSender::atomic(const RemoteAtomic& operation, bool noteworthy) noexcept {
    if (atomics_asked_ - atomics_taken_ == kAtomicResults) return kPortWaits;
    std::byte* const to =
        tell_queue() ? shared_->connection.outgoing.reserve_whole(sizeof operation) : nullptr;
    if (to == nullptr) return wait_for_peer(true);
    copy_bytes(to, reinterpret_cast<const std::byte*>(&operation), sizeof operation);
    shared_->connection.outgoing.commit(
        {sizeof operation, kFirstRecord | kLastRecord | kAtomicRecord, sizeof operation, 0});
    ++atomics_asked_;
    return handed_over_one_sided(noteworthy);
}

void RingSender::take_result(const PieceList& into) noexcept {
    const std::uint64_t before = shared_->connection.outgoing.atomic_result(atomics_taken_);
    const auto bytes = static_cast<std::uint32_t>(into.total);
    scatter(into, 0, AtomicResult(before, bytes, into.big_endian).data(), bytes);
    ++atomics_taken_;
}

}  // namespace verbatim::softnic
