// What the shm port has the owner of the memory do: pieces of a write on their way there, pieces of
// a read on their way back, and atomic operations. The owner's side: remote_copy.cpp and
// remote_atomic.cpp.
#include <algorithm>

#include "remote_copy.hpp"
#include "shared_store.hpp"
#include "shm_port.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

// What would be smaller goes behind the end of the ring, unless the request is as small.
constexpr std::uint64_t kSmallestPiece = 16;

RemoteCopy piece_of(const PortRequest& request, std::uint64_t offset,
                    std::uint64_t bytes) noexcept {
    return {request.address + offset, request.key, static_cast<std::uint32_t>(bytes)};
}

}  // namespace

// False: there is no room for the rest now; sent_ remembers where it begins. `last`: nothing
// follows that the peer acknowledges.
bool ShmPort::put_through_peer(const PortRequest& request, const PieceList& bytes,
                               bool last) noexcept {
    if (!tell_queue()) return false;
    while (sent_ != bytes.total) {
        const std::uint64_t left = bytes.total - sent_;
        std::size_t room = 0;
        if (shared_->outgoing.reserve_whole(sizeof(RemoteCopy) + std::min(left, kSmallestPiece)) ==
            nullptr)
            return false;
        std::byte* to = shared_->outgoing.reserve(room);
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
        shared_->outgoing.commit({static_cast<std::uint32_t>(sizeof piece + most),
                                  kPutRecord | kFirstRecord | (ends ? kLastRecord : 0), 0, 0});
    }
    return true;
}

// The request stays at the head of the queue until it has all its bytes. Each piece is a message of
// its own, and nothing else is sent meanwhile.
PortAnswer ShmPort::get_through_peer(const PortRequest& request, const PieceList& into) noexcept {
    if (!shared_->reliable()) return refuse(Syndrome::local_queue_pair);
    take_answers(into);
    if (taken_ == into.total) {
        sent_ = taken_ = 0;
        return {};
    }
    // What is refused may be an earlier message, whose completion says so then.
    if (const Syndrome refused = this->refused(); refused != kNoSyndrome) {
        const Ticket before = tickets_ - (pieces_asked_ - pieces_taken_);
        return acknowledged() >= before ? refuse(refused)
                                        : PortAnswer{PortOutcome::waits, kNoSyndrome, 0};
    }
    ask_for_pieces(request, into);
    if (shared_->outgoing.broken()) return refuse(Syndrome::remote_operation);
    return {PortOutcome::waits, kNoSyndrome, 0};
}

// It may have refused a part of the request before it fell silent.
Syndrome ShmPort::silence() const noexcept {
    const Syndrome refused = this->refused();
    const bool asked = begun() || pieces_asked_ != pieces_taken_;
    return asked && refused != kNoSyndrome ? refused : Syndrome::retry_exceeded;
}

void ShmPort::take_answers(const PieceList& into) noexcept {
    const Ticket acknowledged = this->acknowledged();
    while (pieces_taken_ != pieces_asked_ &&
           acknowledged > tickets_ - (pieces_asked_ - pieces_taken_)) {
        const std::uint64_t bytes = std::min<std::uint64_t>(kAnswerBytes, into.total - taken_);
        scatter(into, taken_, shared_->outgoing.answer(pieces_taken_++), bytes);
        taken_ += bytes;
    }
}

void ShmPort::ask_for_pieces(const PortRequest& request, const PieceList& into) noexcept {
    bool asked = false;
    while (sent_ != into.total && pieces_asked_ - pieces_taken_ != kAnswers && tell_queue()) {
        const std::uint64_t bytes = std::min<std::uint64_t>(kAnswerBytes, into.total - sent_);
        const RemoteCopy piece = piece_of(request, sent_, bytes);
        std::byte* const to = shared_->outgoing.reserve_whole(sizeof piece);
        if (to == nullptr) break;
        copy_bytes(to, reinterpret_cast<const std::byte*>(&piece), sizeof piece);
        shared_->outgoing.commit({sizeof piece, kGetRecord | kFirstRecord | kLastRecord, 0, 0});
        sent_ += bytes;
        ++pieces_asked_, ++tickets_;
        asked = true;
    }
    if (asked) wake_receiver(true);
}

// The owner checks key and bounds again.
PortAnswer ShmPort::atomic_at_peer(const RemoteAtomic& operation, bool noteworthy) noexcept {
    if (atomics_asked_ - atomics_taken_ == kAtomicResults)
        return {PortOutcome::waits, kNoSyndrome, 0};
    std::byte* const to =
        tell_queue() ? shared_->outgoing.reserve_whole(sizeof operation) : nullptr;
    if (to == nullptr) return no_room();
    copy_bytes(to, reinterpret_cast<const std::byte*>(&operation), sizeof operation);
    shared_->outgoing.commit(
        {sizeof operation, kFirstRecord | kLastRecord | kAtomicRecord, sizeof operation, 0});
    ++atomics_asked_;
    return handed_over(noteworthy);
}

bool ShmPort::take_result(const PieceList& into) noexcept {
    const std::uint64_t before = shared_->outgoing.atomic_result(atomics_taken_);
    scatter(into, 0, reinterpret_cast<const std::byte*>(&before), into.total);
    ++atomics_taken_;
    return true;
}

}  // namespace verbatim::softnic
