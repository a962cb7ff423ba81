// Copies by the owner of the memory: pieces of a write on their way there, pieces of a read on
// their way back, and what the owner does with both. A peer that rewrites what it was told can harm
// its own data only: the owner reads each record once and looks its key up itself.
#include "remote_copy.hpp"

#include <cstring>

#include "receive_engine.hpp"
#include "send_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

// What would be smaller goes behind the end of the ring, unless the request is as small.
constexpr std::uint64_t kSmallestPiece = 16;

RemoteCopy piece_of(const mlx5::RemoteAddressSegment& target, std::uint64_t offset,
                    std::uint64_t bytes) noexcept {
    return {target.address.native() + offset, target.key.native(),
            static_cast<std::uint32_t>(bytes)};
}

}  // namespace

// False: there is no room for the rest now; sent_ remembers where it begins. `last`: nothing
// follows that the peer acknowledges.
bool SendEngine::put_through_peer(const Request& request, const PieceList& list,
                                  bool last) noexcept {
    const auto target = request.wqe.read<mlx5::RemoteAddressSegment>(first_unit_);
    while (sent_ != list.total) {
        const std::uint64_t left = list.total - sent_;
        std::size_t room = 0;
        if (shared_->outgoing.reserve_whole(sizeof(RemoteCopy) + std::min(left, kSmallestPiece)) ==
            nullptr)
            return false;
        std::byte* to = shared_->outgoing.reserve(room);
        const std::uint64_t bytes = std::min<std::uint64_t>(left, room - sizeof(RemoteCopy));
        const RemoteCopy piece = piece_of(target, sent_, bytes);
        copy_bytes(to, reinterpret_cast<const std::byte*>(&piece), sizeof piece);
        to += sizeof piece;
        for_each_part(list, sent_, bytes, [&](const std::byte* from, std::size_t part) {
            copy_bytes(to, from, part);
            to += part;
        });
        sent_ += bytes;
        const bool ends = last && sent_ == list.total;
        shared_->outgoing.commit({static_cast<std::uint32_t>(sizeof piece + bytes),
                                  kPutRecord | kFirstRecord | (ends ? kLastRecord : 0), 0, 0});
    }
    return true;
}

// The request stays at the head of the queue until it has all its bytes. Each piece is a message of
// its own, and nothing else is sent meanwhile.
SendEngine::Verdict SendEngine::get_through_peer(Request& request, const PieceList& list) noexcept {
    if (!shared_->reliable()) return fail(request, Syndrome::local_queue_pair);
    take_answers(list);
    if (taken_ == list.total) {
        sent_ = taken_ = 0;
        return Verdict::done;
    }
    // What is refused may be an earlier message: harvest() says so then.
    if (const auto refused = static_cast<Syndrome>(shared_->outgoing.refused());
        refused != kNoSyndrome)
        return unretired_.load(std::memory_order_relaxed) != 0 ? Verdict::waits
                                                               : fail(request, refused);
    ask_for_pieces(request, list);
    return shared_->outgoing.broken() ? fail(request, Syndrome::remote_operation) : Verdict::waits;
}

// Why the peer does not answer the request at the head: it may have refused a part of it before it
// fell silent. Of earlier requests none is outstanding any more.
Syndrome SendEngine::silence() const noexcept {
    const auto refused = static_cast<Syndrome>(shared_->outgoing.refused());
    const bool begun = message_begun_ || sent_ != 0 || pieces_asked_ != pieces_taken_;
    return begun && refused != kNoSyndrome ? refused : Syndrome::retry_exceeded;
}

void SendEngine::take_answers(const PieceList& list) noexcept {
    const std::uint64_t acknowledged = shared_->outgoing.acknowledged();
    while (pieces_taken_ != pieces_asked_ &&
           acknowledged > messages_ - (pieces_asked_ - pieces_taken_)) {
        const std::uint64_t bytes =
            std::min<std::uint64_t>(shared_->outgoing.answer_bytes(), list.total - taken_);
        scatter(list, taken_, shared_->outgoing.answer(), bytes);
        shared_->outgoing.take_answer();
        ++pieces_taken_;
        taken_ += bytes;
    }
}

void SendEngine::ask_for_pieces(const Request& request, const PieceList& list) noexcept {
    const auto target = request.wqe.read<mlx5::RemoteAddressSegment>(first_unit_);
    bool asked = false;
    while (sent_ != list.total && pieces_asked_ - pieces_taken_ != kAnswers) {
        const std::uint64_t bytes =
            std::min<std::uint64_t>(shared_->outgoing.answer_bytes(), list.total - sent_);
        const RemoteCopy piece = piece_of(target, sent_, bytes);
        std::byte* const to = shared_->outgoing.reserve_whole(sizeof piece + bytes);
        if (to == nullptr) break;
        copy_bytes(to, reinterpret_cast<const std::byte*>(&piece), sizeof piece);
        shared_->outgoing.commit_question({static_cast<std::uint32_t>(sizeof piece + bytes),
                                           kGetRecord | kFirstRecord | kLastRecord, 0, 0});
        sent_ += bytes;
        ++pieces_asked_, ++messages_;
        asked = true;
    }
    if (asked) wake_receiver(true);
}

// Memory of this process, by a region's key or a window's; null: not allowed. Looked up each time:
// the key may go meanwhile.
std::byte* ReceiveEngine::reach(const RemoteCopy& piece, std::uint64_t bytes,
                                Access wanted) noexcept {
    Grant grant;
    if (!keys_->view().find(piece.key, grant) || !grant.serves_queue_pair(shared_->number) ||
        grant.domain != keys_domain() || !grant.covers(piece.address, bytes) ||
        !allows(grant.access, wanted))
        return nullptr;
    return reinterpret_cast<std::byte*>(piece.address + grant.origin);
}

// False: the queue pair failed. Takes no receive.
bool ReceiveEngine::copy_for_peer(const RecordHeader& record, const std::byte* payload) noexcept {
    const bool put = (record.flags & kPutRecord) != 0;
    RemoteCopy piece;
    if (record.bytes >= sizeof piece) std::memcpy(&piece, payload, sizeof piece);
    const std::uint64_t bytes = put ? record.bytes - sizeof piece : piece.bytes;
    if (record.bytes < sizeof piece ||
        (!put && (piece.bytes == 0 || bytes != record.bytes - sizeof piece))) {
        shared_->failure.set("the peer wrote a malformed copy");
        fail(Syndrome::flushed, Syndrome::remote_invalid);
        return false;
    }
    std::byte* const at = reach(piece, bytes, put ? Access::remote_write : Access::remote_read);
    if (at == nullptr) {
        if (!shared_->reliable()) return drop(record);
        shared_->failure.set("the peer's copy of {} bytes at {:#x} is not allowed", bytes,
                             piece.address);
        fail(Syndrome::flushed, Syndrome::remote_access);
        return false;
    }
    if (put)
        write_in_order(at, payload + sizeof piece, bytes);
    else
        shared_->incoming.set_answer(payload, at, bytes);
    if ((record.flags & kLastRecord) != 0) shared_->incoming.acknowledge();
    drained_ = moved_ = true;
    shared_->incoming.release(record);
    return true;
}

}  // namespace verbatim::softnic
