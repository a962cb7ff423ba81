// Copies by the owner of the memory, for a peer: pieces of writes and of reads. A peer that
// rewrites what it was told can harm its own data only: the owner reads each record once and looks
// its key up itself.
#include "remote_copy.hpp"

#include <cstring>

#include "receive_engine.hpp"
#include "shared_store.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

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
    access_.enter();
    std::byte* const at = reach(piece, bytes, put ? Access::remote_write : Access::remote_read);
    if (at != nullptr && put)
        write_in_order(at, payload + sizeof piece, bytes);
    else if (at != nullptr)
        shared_->incoming.set_answer(payload, at, bytes);
    access_.leave();
    if (at == nullptr) {
        if (!shared_->reliable()) return drop(record);
        shared_->failure.set("the peer's copy of {} bytes at {:#x} is not allowed", bytes,
                             piece.address);
        fail(Syndrome::flushed, Syndrome::remote_access);
        return false;
    }
    if ((record.flags & kLastRecord) != 0) shared_->incoming.acknowledge();
    drained_ = moved_ = true;
    shared_->incoming.release(record);
    return true;
}

}  // namespace verbatim::softnic
