// Chunks.
#include "peer_copies.hpp"

#include "pieces.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

// Without fences only where both processes take part in barriers: this one in the peer's.
void PeerCopies::bind() noexcept {
    const bool barriers = shared_->access->barriers() && shared_->link->peer_raises_barriers();
    access_.bind(shared_->outgoing.access_word(), !barriers);
}

Syndrome PeerCopies::refuse() const noexcept {
    if (!allowed()) return Syndrome::retry_exceeded;
    shared_->failure.set("the peer revoked the remote key while the request was executed");
    return Syndrome::remote_access;
}

// Until the first chunk that fails, or that nothing was done of.
template <class Copy>
Syndrome PeerCopies::in_chunks(std::uint64_t total, Copy&& copy) noexcept {
    for (std::uint64_t done = 0; done != total;) {
        const std::uint64_t bytes = std::min(kMostInside, total - done);
        const MemoryTouch inside(access_);
        if (const Syndrome syndrome = look_again(); syndrome != kNoSyndrome) return syndrome;
        Syndrome syndrome = kNoSyndrome;
        if (!copy(done, bytes, syndrome)) return syndrome;
        done += bytes;
    }
    return kNoSyndrome;
}

Syndrome PeerCopies::write(const RemoteRange& range, const PieceList& list) noexcept {
    const bool streams = list.total >= kStreamedBytes;
    return in_chunks(list.total, [&](std::uint64_t done, std::uint64_t bytes, Syndrome& syndrome) {
        if (range.mapped != nullptr) {
            gather_in_order(range.mapped + done, list, {done, bytes, streams});
            return true;
        }
        syndrome = remote_->write_private(range, list, {done, bytes});
        return syndrome == kNoSyndrome && remote_->attaches();
    });
}

Syndrome PeerCopies::read(const RemoteRange& range, const PieceList& list) noexcept {
    return in_chunks(list.total, [&](std::uint64_t done, std::uint64_t bytes, Syndrome& syndrome) {
        if (range.mapped != nullptr) {
            scatter(list, done, range.mapped + done, bytes);
            return true;
        }
        syndrome = remote_->read_private(range, list, {done, bytes});
        return syndrome == kNoSyndrome && remote_->attaches();
    });
}

}  // namespace verbatim::softnic
