// Requests of the shm port. Those that the peer executes for this side: shm_port_through_peer.cpp.
#include "shm_port.hpp"

#include <algorithm>

#include "remote_copy.hpp"
#include "shared_store.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

// A write of at most one record crosses the ring behind what is in there; longer ones wait until
// the peer has taken that, so that their bytes are copied once.
constexpr std::uint64_t kMostBehind = kMaxRecordBytes - sizeof(RemoteCopy);

constexpr Access needed_by(Opcode opcode) noexcept {
    if (opcode == Opcode::read) return Access::remote_read;
    const bool writes = opcode == Opcode::write || opcode == Opcode::write_immediate;
    return writes ? Access::remote_write : Access::remote_atomic;
}

constexpr bool sends(Opcode opcode) noexcept {
    return opcode == Opcode::send || opcode == Opcode::send_immediate ||
           opcode == Opcode::send_invalidate;
}

// What the last record of a message brings beside its bytes.
constexpr std::uint32_t carried_by(Opcode opcode) noexcept {
    if (opcode == Opcode::send_immediate) return kHasImmediate;
    return opcode == Opcode::send_invalidate ? kHasInvalidate : 0;
}

}  // namespace

void ShmPort::bind() {
    if (shared_->datagrams()) return;
    remote_.bind(shared_->link, shared_->peer_number, shared_->outgoing,
                 shared_->access->barriers());
}

void ShmPort::reset() noexcept {
    remote_.unbind();
    tickets_ = sent_ = atomics_asked_ = atomics_taken_ = 0;
    pieces_asked_ = pieces_taken_ = taken_ = 0;
    queue_ = told_queue_ = 0;
    message_begun_ = false;
    owes_wake_.store(false, std::memory_order_relaxed);
}

PortAnswer ShmPort::post(const PortRequest& request, const PieceList& bytes) noexcept {
    if (shared_->names_queues && !expect_queue(request.queue))
        return refuse(Syndrome::remote_invalid);
    if (sends(request.opcode)) return send(request, bytes);
    if (!allowed(needed_by(request.opcode))) return refuse(Syndrome::remote_invalid);
    if (request.atomic != nullptr) return atomic(*request.atomic, bytes);
    return request.opcode == Opcode::read ? read(request, bytes) : write(request, bytes);
}

// What the peer's queue pair takes, whatever its keys say.
bool ShmPort::allowed(Access wanted) noexcept {
    if (shared_->outgoing.allows(wanted)) return true;
    shared_->failure.set("the peer's queue pair does not allow access {:#x}",
                         static_cast<unsigned>(wanted));
    return false;
}

PortAnswer ShmPort::refuse(Syndrome syndrome) noexcept {
    if (shared_->reliable() &&
        (syndrome == Syndrome::remote_access || syndrome == Syndrome::remote_invalid))
        report_refusal(syndrome);
    return {PortOutcome::refused, syndrome, 0};
}

void ShmPort::report_refusal(Syndrome syndrome) noexcept {
    shared_->outgoing.report_fault(static_cast<std::uint8_t>(syndrome));
}

// Until the peer has made room in the ring.
PortAnswer ShmPort::no_room() noexcept { return wait_for_peer(true); }

PortAnswer ShmPort::wait_for_peer(bool noteworthy) noexcept {
    if (shared_->outgoing.broken()) return refuse(Syndrome::remote_operation);
    wake_receiver(noteworthy);
    return {PortOutcome::waits, kNoSyndrome, 0};
}

// If it may sleep at all.
void ShmPort::wake_receiver(bool noteworthy) noexcept {
    if (!shared_->outgoing.wakes_receiver()) [[likely]]
        return;
    owes_wake_.store(!shared_->wake_receiver(noteworthy), std::memory_order_relaxed);
}

// The ring has all of the message. Without reliability nobody waits for its end.
PortAnswer ShmPort::handed_over(bool solicited) noexcept {
    sent_ = 0;
    wake_receiver(solicited);
    if (!shared_->reliable()) return {};
    return {PortOutcome::accepted, kNoSyndrome, ++tickets_};
}

PortAnswer ShmPort::write(const PortRequest& request, const PieceList& bytes) noexcept {
    const bool immediate = request.opcode == Opcode::write_immediate;
    RemoteRange range;
    if (bytes.total != 0) {
        const Syndrome syndrome =
            remote_.reach(request.key, request.address, bytes.total, Access::remote_write, range);
        if (syndrome != kNoSyndrome) return refuse(syndrome);
    }
    // Room for the immediate first: the data must not be written twice, its reader may have moved
    // on.
    std::size_t capacity = 0;
    if (immediate && (!tell_queue() || shared_->outgoing.reserve(capacity) == nullptr))
        return no_room();
    bool crosses = false;
    if (bytes.total != 0) {
        const bool behind = sent_ != 0 || !shared_->outgoing.all_taken();
        if (behind && sent_ == 0 && bytes.total > kMostBehind) return wait_for_peer(false);
        crosses = behind;
        if (!behind) {
            if (const Syndrome syndrome = remote_.write(range, bytes); syndrome != kNoSyndrome)
                return refuse(syndrome);
            crosses = !remote_.reaches(range);
        }
        if (crosses && !put_through_peer(request, bytes, !immediate)) return no_room();
    }
    // What crosses only for the sake of order is no reason to wake a peer for.
    if (!immediate) return crosses ? handed_over(!remote_.reaches(range)) : PortAnswer{};
    if (crosses && shared_->outgoing.reserve(capacity) == nullptr) return no_room();
    shared_->outgoing.commit({0,
                              kFirstRecord | kLastRecord | kHasImmediate | kWriteRecord |
                                  (request.solicited ? kSolicitedRecord : 0),
                              static_cast<std::uint32_t>(bytes.total), request.immediate});
    return handed_over(request.solicited);
}

PortAnswer ShmPort::send(const PortRequest& request, const PieceList& bytes) noexcept {
    const std::uint32_t carries =
        carried_by(request.opcode) | (request.solicited ? kSolicitedRecord : 0);
    if (!tell_queue()) return no_room();
    for (bool last = false; !last;) {
        std::size_t capacity = 0;
        std::byte* to = shared_->outgoing.reserve(capacity);
        if (to == nullptr) return no_room();
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
            (message_begun_ ? 0 : kFirstRecord) | (last ? kLastRecord : 0) | (last ? carries : 0);
        record.total = static_cast<std::uint32_t>(bytes.total);
        record.immediate = request.immediate;
        shared_->outgoing.commit(record);
        message_begun_ = !last;
    }
    return handed_over(request.solicited);
}

PortAnswer ShmPort::read(const PortRequest& request, const PieceList& into) noexcept {
    if (into.total == 0) return {};
    RemoteRange range;
    Syndrome syndrome =
        remote_.reach(request.key, request.address, into.total, Access::remote_read, range);
    if (syndrome == kNoSyndrome && remote_.reaches(range)) {
        if (sent_ == 0 && !shared_->outgoing.all_taken()) return wait_for_peer(false);
        syndrome = remote_.read(range, into);
    }
    if (syndrome != kNoSyndrome) return refuse(syndrome);
    return remote_.reaches(range) ? PortAnswer{} : get_through_peer(request, into);
}

// On the peer's aligned word of this size.
PortAnswer ShmPort::atomic(const RemoteAtomic& operation, const PieceList& into) noexcept {
    RemoteRange range;
    const Syndrome syndrome = remote_.reach(operation.key, operation.address, operation.bytes,
                                            Access::remote_atomic, range);
    if (syndrome != kNoSyndrome) return refuse(syndrome);
    if (range.address % operation.bytes != 0 ||
        reinterpret_cast<std::uintptr_t>(range.mapped) % operation.bytes != 0) {
        shared_->failure.set("atomic operation at {:#x}: not aligned to {} bytes", range.address,
                             operation.bytes);
        return refuse(Syndrome::remote_invalid);
    }
    if (range.mapped == nullptr || !shared_->outgoing.all_taken())
        return atomic_at_peer(operation, range.mapped == nullptr);
    std::uint64_t before = 0;
    if (const Syndrome revoked = remote_.execute(operation, range, before); revoked != kNoSyndrome)
        return refuse(revoked);
    scatter(into, 0, reinterpret_cast<const std::byte*>(&before), operation.bytes);
    return {};
}

// Requests of XRC name a shared receive queue, whose protection domain is the one that keys are
// checked against.
bool ShmPort::expect_queue(std::uint32_t queue) noexcept {
    const auto domain = shared_->outgoing.protection_domain(queue);
    if (!domain) {
        shared_->failure.set("the peer has no shared receive queue {} in its XRC domain", queue);
        return false;
    }
    queue_ = queue;
    remote_.expect_domain(*domain);
    return true;
}

// Before the first record for another queue than the last one was for; the peer keeps the number.
// False: there is no room.
bool ShmPort::tell_queue() noexcept {
    if (queue_ == told_queue_) [[likely]]
        return true;
    std::size_t capacity = 0;
    if (shared_->outgoing.reserve(capacity) == nullptr) return false;
    shared_->outgoing.commit({0, kQueueRecord | kFirstRecord | kLastRecord, queue_, 0});
    told_queue_ = queue_;
    return true;
}

}  // namespace verbatim::softnic
