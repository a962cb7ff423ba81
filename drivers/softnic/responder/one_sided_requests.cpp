// Execution of peers' copies and atomic operations.
#include "one_sided_requests.hpp"

#include <cstring>

#include "../host/shared_store.hpp"
#include "../rings/remote_atomic.hpp"
#include "../rings/remote_copy.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

// The protection domain that they belong to.
std::uint32_t OneSidedRequests::keys_domain(const ReceiveEntries& entries) const noexcept {
    const QueuePairTraits& traits = shared_->traits;
    return traits.xrc_domain != nullptr ? entries.source().list->domain() : traits.domain;
}

// Memory of this process, by a region's key or a window's; null: not allowed. Looked up each time:
// the key may go meanwhile.
std::byte* OneSidedRequests::reach(const ReceiveEntries& entries, const RemoteCopy& piece,
                                   std::uint64_t bytes, Access wanted) const noexcept {
    Grant grant;
    if (!entries.source().keys->view().find(piece.key, grant) ||
        !grant.serves_queue_pair(shared_->traits.number) || grant.domain != keys_domain(entries) ||
        !grant.covers(piece.address, bytes) || !allows(grant.access, wanted) ||
        !allows(shared_->limits.allowed.load(std::memory_order_relaxed), wanted))
        return nullptr;
    return reinterpret_cast<std::byte*>(piece.address + grant.origin);
}

OneSidedRequests::Outcome OneSidedRequests::copy(ReceiveEntries& entries, AccessSequence& access,
                                                 const RecordHeader& record,
                                                 const std::byte* payload) noexcept {
    ChannelReceiver& incoming = shared_->connection.incoming;
    const bool put = (record.flags & kPutRecord) != 0;
    RemoteCopy piece;
    if (record.bytes >= sizeof piece) std::memcpy(&piece, payload, sizeof piece);
    const std::uint64_t bytes = put ? record.bytes - sizeof piece : piece.bytes;
    if (record.bytes < sizeof piece ||
        (!put && (piece.bytes == 0 || bytes != record.bytes - sizeof piece))) {
        shared_->failure.text.set("the peer wrote a malformed copy");
        entries.fail(Syndrome::flushed, Syndrome::remote_invalid);
        return Outcome::refused;
    }
    access.enter();
    std::byte* const at =
        reach(entries, piece, bytes, put ? Access::remote_write : Access::remote_read);
    if (at != nullptr && put)
        write_in_order(at, payload + sizeof piece, bytes);
    else if (at != nullptr)
        incoming.set_answer(payload, at, bytes);
    access.leave();
    if (at == nullptr) {
        if (!shared_->traits.reliable()) return Outcome::dropped;
        shared_->failure.text.set("the peer's copy of {} bytes at {:#x} is not allowed", bytes,
                                  piece.address);
        entries.fail(Syndrome::flushed, Syndrome::remote_access);
        return Outcome::refused;
    }
    if ((record.flags & kLastRecord) != 0) incoming.acknowledge();
    incoming.release(record);
    return Outcome::done;
}

Syndrome OneSidedRequests::reach_word(const ReceiveEntries& entries, const RemoteAtomic& operation,
                                      std::byte*& word) const noexcept {
    if (operation.bytes != sizeof(std::uint32_t) && operation.bytes != sizeof(std::uint64_t))
        return Syndrome::remote_invalid;
    word = reach(entries, {operation.address, operation.key, 0}, operation.bytes,
                 Access::remote_atomic);
    if (word == nullptr) return Syndrome::remote_access;
    const bool aligned = reinterpret_cast<std::uintptr_t>(word) % operation.bytes == 0;
    return aligned ? kNoSyndrome : Syndrome::remote_invalid;
}

OneSidedRequests::Outcome OneSidedRequests::execute_atomic(ReceiveEntries& entries,
                                                           AccessSequence& access,
                                                           const RecordHeader& record,
                                                           const std::byte* payload) noexcept {
    RemoteAtomic operation;
    if (record.bytes != sizeof operation || (record.flags & kLastRecord) == 0) {
        shared_->failure.text.set("the peer wrote a malformed atomic operation");
        entries.fail(Syndrome::flushed, Syndrome::remote_invalid);
        return Outcome::refused;
    }
    std::memcpy(&operation, payload, sizeof operation);
    std::byte* at = nullptr;
    access.enter();
    const Syndrome syndrome = reach_word(entries, operation, at);
    const std::uint64_t before = syndrome == kNoSyndrome ? execute(operation, at) : 0;
    access.leave();
    if (syndrome != kNoSyndrome) {
        shared_->failure.text.set(
            "the peer's atomic operation at {:#x} is misaligned or not allowed", operation.address);
        entries.fail(Syndrome::flushed, syndrome);
        shared_->failure.report(syndrome == Syndrome::remote_access
                                    ? QueuePairEvent::access_error
                                    : QueuePairEvent::request_error);
        return Outcome::refused;
    }
    ChannelReceiver& incoming = shared_->connection.incoming;
    incoming.set_atomic_result(atomics_++, before);
    incoming.acknowledge();
    incoming.release(record);
    return Outcome::done;
}

}  // namespace verbatim::softnic
