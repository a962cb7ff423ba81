// Copies between this process and its peer's memory, each chunk bracketed by the ring's access
// word, so that the peer can take its memory away (docs/revocation.md). Threads: the one inside the
// send gate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "access_sequence.hpp"
#include "memory_access.hpp"
#include "queue_pair_state.hpp"

namespace verbatim::softnic {

class PeerCopies {
  public:
    PeerCopies(RemoteMemory& remote, QueuePairShared& shared) noexcept
        : remote_(&remote), shared_(&shared) {}

    // Control path: to the ring that shared.outgoing is now; to none.
    void bind() noexcept;
    void unbind() noexcept { access_.unbind(); }

    // The bracket of one chunk that the caller copies itself, after it has looked at everything
    // that allows it, allowed() among that.
    AccessSequence& access() noexcept { return access_; }
    // Inside: whether the queue pair there takes requests still.
    bool allowed() const noexcept { return shared_->outgoing.receiver_is_open(); }
    // Inside: whether what RemoteMemory::reach() said last is true still.
    mlx5::Syndrome look_again() const noexcept {
        return allowed() && remote_->current() ? kNoSyndrome : refuse();
    }

    // All of the list. Where `range` is private memory and RemoteMemory::attaches() is false
    // afterwards, the peer is to do it.
    mlx5::Syndrome write(const RemoteRange& range, const PieceList& list) noexcept;
    mlx5::Syndrome read(const RemoteRange& range, const PieceList& list) noexcept;

  private:
    template <class Copy>
    mlx5::Syndrome in_chunks(std::uint64_t total, Copy&& copy) noexcept;
    mlx5::Syndrome refuse() const noexcept;

    RemoteMemory* remote_;
    QueuePairShared* shared_;
    AccessSequence access_;
};

}  // namespace verbatim::softnic
