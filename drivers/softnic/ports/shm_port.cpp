// Requests of the shm port.
#include "shm_port.hpp"

#include <verbatim/mlx5/encode.hpp>

#include "../rings/remote_copy.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

// A write of at most one record crosses the ring behind what is in there; longer ones wait until
// the peer has taken that, so that their bytes are copied once.
constexpr std::uint64_t kMostBehind = kMaxRecordBytes - sizeof(RemoteCopy);

constexpr Access needed_by(Opcode opcode) noexcept {
    if (opcode == Opcode::read) return Access::remote_read;
    return mlx5::is_write(opcode) ? Access::remote_write : Access::remote_atomic;
}

}  // namespace

void ShmPort::bind() {
    if (shared_->traits.datagrams()) return;
    remote_.bind(shared_->connection.link, shared_->connection.peer_number,
                 shared_->connection.outgoing, shared_->access->barriers());
}

void ShmPort::reset() noexcept {
    remote_.unbind();
    ring_.reset();
}

PortAnswer ShmPort::post(const PortRequest& request, const PieceList& bytes) noexcept {
    if (shared_->traits.names_queues && !expect_queue(request.queue))
        return refuse(Syndrome::remote_invalid);
    if (mlx5::is_send(request.opcode)) return ring_.send(request, bytes);
    if (!allowed(needed_by(request.opcode))) return refuse(Syndrome::remote_invalid);
    if (request.atomic != nullptr) return atomic(*request.atomic, bytes);
    return request.opcode == Opcode::read ? read(request, bytes) : write(request, bytes);
}

// What the peer's queue pair takes, whatever its keys say.
bool ShmPort::allowed(Access wanted) noexcept {
    if (shared_->connection.outgoing.allows(wanted)) return true;
    shared_->failure.text.set("the peer's queue pair does not allow access {:#x}",
                              static_cast<unsigned>(wanted));
    return false;
}

// In the peer's place, which is to hear of it. One that has closed meanwhile answers nothing: its
// queue pair fails before its memory goes. Or it has refused what it was asked before.
PortAnswer ShmPort::refuse(Syndrome syndrome) noexcept {
    if (syndrome == kPeerIsAsked) return kPortWaits;
    if (syndrome == Syndrome::remote_access && silent()) return refusal(ring_.silence());
    if (shared_->traits.reliable() &&
        (syndrome == Syndrome::remote_access || syndrome == Syndrome::remote_invalid))
        report_refusal(syndrome);
    return refusal(syndrome);
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
    if (immediate && !ring_.has_room()) return ring_.wait_for_peer(true);
    bool crosses = false;
    if (bytes.total != 0) {
        crosses = !ring_.idle();
        if (crosses && !ring_.begun() && bytes.total > kMostBehind)
            return ring_.wait_for_peer(false);
        if (!crosses) {
            if (const Syndrome syndrome = remote_.write(range, bytes); syndrome != kNoSyndrome)
                return refuse(syndrome);
            crosses = !remote_.reaches(range);
        }
    }
    if (immediate) return ring_.write_immediate(request, bytes, crosses);
    // What crosses only for the sake of order is no reason to wake a peer for.
    return crosses ? ring_.write(request, bytes, !remote_.reaches(range)) : PortAnswer{};
}

PortAnswer ShmPort::read(const PortRequest& request, const PieceList& into) noexcept {
    if (into.total == 0) return {};
    RemoteRange range;
    Syndrome syndrome =
        remote_.reach(request.key, request.address, into.total, Access::remote_read, range);
    if (syndrome != kNoSyndrome) return refuse(syndrome);
    if (!ring_.begun() && remote_.reaches(range)) {
        if (!ring_.idle()) return ring_.wait_for_peer(false);
        syndrome = remote_.read(range, into);
        if (syndrome != kNoSyndrome) return refuse(syndrome);
        if (remote_.reaches(range)) return {};
    }
    return ring_.read(request, into);
}

// On the peer's aligned word of this size.
PortAnswer ShmPort::atomic(const RemoteAtomic& operation, const PieceList& into) noexcept {
    RemoteRange range;
    const Syndrome syndrome = remote_.reach(operation.key, operation.address, operation.bytes,
                                            Access::remote_atomic, range);
    if (syndrome != kNoSyndrome) return refuse(syndrome);
    if (range.address % operation.bytes != 0 ||
        reinterpret_cast<std::uintptr_t>(range.mapped) % operation.bytes != 0) {
        shared_->failure.text.set("atomic operation at {:#x}: not aligned to {} bytes",
                                  range.address, operation.bytes);
        return refuse(Syndrome::remote_invalid);
    }
    if (range.mapped == nullptr || !ring_.idle())
        return ring_.atomic(operation, range.mapped == nullptr);
    std::uint64_t before = 0;
    if (const Syndrome revoked = remote_.execute(operation, range, before); revoked != kNoSyndrome)
        return refuse(revoked);
    scatter(into, 0, AtomicResult(before, operation.bytes, into.big_endian).data(),
            operation.bytes);
    return {};
}

// Requests of XRC name a shared receive queue, whose protection domain is the one that keys are
// checked against.
bool ShmPort::expect_queue(std::uint32_t queue) noexcept {
    const auto domain = shared_->connection.outgoing.protection_domain(queue);
    if (!domain) {
        shared_->failure.text.set("the peer has no shared receive queue {} in its XRC domain",
                                  queue);
        return false;
    }
    ring_.set_queue(queue);
    remote_.expect_domain(*domain);
    return true;
}

}  // namespace verbatim::softnic
