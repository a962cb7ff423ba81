// The permission to touch a peer's memory, chunk by chunk: the access word of the ring to it, which
// its revokers look at (docs/revocation.md), and that ring's state. Threads: the one inside the
// send gate.
#pragma once

#include "../keys/access_sequence.hpp"
#include "channel.hpp"

namespace verbatim::softnic {

class PeerAccess {
  public:
    // Control path. `ring` stays until unbind(). `barriers`: this process takes part in barriers,
    // and the peer raises them when it takes memory away.
    void bind(const ChannelSender& ring, bool barriers) noexcept {
        ring_ = &ring;
        sequence_.bind(ring.access_word(), !barriers);
    }
    void unbind() noexcept {
        ring_ = nullptr;
        sequence_.unbind();
    }

    // The bracket around each chunk.
    AccessSequence& sequence() noexcept { return sequence_; }
    // Inside: the peer's queue pair takes requests still.
    bool allowed() const noexcept { return ring_->receiver_is_open(); }
    // After a jump out of a chunk.
    void recover() noexcept { sequence_.recover(); }

  private:
    const ChannelSender* ring_ = nullptr;
    AccessSequence sequence_;
};

}  // namespace verbatim::softnic
