// Peers' one-sided requests that the owner of the memory executes: pieces of writes and of reads,
// and atomic operations. A peer that rewrites what it was told can harm its own data only: the
// owner reads each record once and looks its key up itself.
#include <cstring>

#include "../host/shared_store.hpp"
#include "../rings/remote_atomic.hpp"
#include "../rings/remote_copy.hpp"
#include "receive_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

// Memory of this process, by a region's key or a window's; null: not allowed. Looked up each time:
// the key may go meanwhile.
std::byte* ReceiveEngine::reach(const RemoteCopy& piece, std::uint64_t bytes,
                                Access wanted) noexcept {
    Grant grant;
    if (!keys_->view().find(piece.key, grant) || !grant.serves_queue_pair(shared_->traits.number) ||
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
        shared_->failure.text.set("the peer wrote a malformed copy");
        fail(Syndrome::flushed, Syndrome::remote_invalid);
        return false;
    }
    access_.enter();
    std::byte* const at = reach(piece, bytes, put ? Access::remote_write : Access::remote_read);
    if (at != nullptr && put)
        write_in_order(at, payload + sizeof piece, bytes);
    else if (at != nullptr)
        shared_->connection.incoming.set_answer(payload, at, bytes);
    access_.leave();
    if (at == nullptr) {
        if (!shared_->traits.reliable()) return drop(record);
        shared_->failure.text.set("the peer's copy of {} bytes at {:#x} is not allowed", bytes,
                                  piece.address);
        fail(Syndrome::flushed, Syndrome::remote_access);
        return false;
    }
    if ((record.flags & kLastRecord) != 0) shared_->connection.incoming.acknowledge();
    drained_ = moved_ = true;
    shared_->connection.incoming.release(record);
    return true;
}

Syndrome ReceiveEngine::reach_word(const RemoteAtomic& operation, std::byte*& word) noexcept {
    if (operation.bytes != sizeof(std::uint32_t) && operation.bytes != sizeof(std::uint64_t))
        return Syndrome::remote_invalid;
    word = reach({operation.address, operation.key, 0}, operation.bytes, Access::remote_atomic);
    if (word == nullptr) return Syndrome::remote_access;
    const bool aligned = reinterpret_cast<std::uintptr_t>(word) % operation.bytes == 0;
    return aligned ? kNoSyndrome : Syndrome::remote_invalid;
}

// False: the queue pair failed. Takes no receive.
bool ReceiveEngine::execute_atomic(const RecordHeader& record, const std::byte* payload) noexcept {
    RemoteAtomic operation;
    if (record.bytes != sizeof operation || (record.flags & kLastRecord) == 0) {
        shared_->failure.text.set("the peer wrote a malformed atomic operation");
        fail(Syndrome::flushed, Syndrome::remote_invalid);
        return false;
    }
    std::memcpy(&operation, payload, sizeof operation);
    std::byte* at = nullptr;
    access_.enter();
    const Syndrome syndrome = reach_word(operation, at);
    const std::uint64_t before = syndrome == kNoSyndrome ? execute(operation, at) : 0;
    access_.leave();
    if (syndrome != kNoSyndrome) {
        shared_->failure.text.set(
            "the peer's atomic operation at {:#x} is misaligned or not allowed", operation.address);
        fail(Syndrome::flushed, syndrome);
        shared_->failure.report(syndrome == Syndrome::remote_access
                                    ? QueuePairEvent::access_error
                                    : QueuePairEvent::request_error);
        return false;
    }
    shared_->connection.incoming.set_atomic_result(atomics_++, before);
    shared_->connection.incoming.acknowledge();
    drained_ = moved_ = true;
    shared_->connection.incoming.release(record);
    return true;
}

}  // namespace verbatim::softnic
