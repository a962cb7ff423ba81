// The one-sided requests of a peer that the owner of the memory executes: pieces of writes and of
// reads, and atomic operations. A peer that rewrites what it was told can harm its own data only:
// the owner reads each record once and looks its key up itself. Threads: the one inside the receive
// gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../keys/access_sequence.hpp"
#include "receive_entries.hpp"

namespace verbatim::softnic {

struct RemoteAtomic;
struct RemoteCopy;

class OneSidedRequests {
  public:
    explicit OneSidedRequests(QueuePairShared& shared) noexcept : shared_(&shared) {}

    // Done: the record is released. Refused: the queue pair failed. Dropped: it is not allowed, and
    // the connection is an unreliable one. None takes a receive.
    enum class Outcome : std::uint8_t { done, refused, dropped };
    Outcome copy(ReceiveEntries& entries, AccessSequence& access, const RecordHeader& record,
                 const std::byte* payload) noexcept;
    Outcome execute_atomic(ReceiveEntries& entries, AccessSequence& access,
                           const RecordHeader& record, const std::byte* payload) noexcept;
    void reset() noexcept { atomics_ = 0; }

  private:
    std::uint32_t keys_domain(const ReceiveEntries& entries) const noexcept;
    std::byte* reach(const ReceiveEntries& entries, const RemoteCopy& piece, std::uint64_t bytes,
                     Access wanted) const noexcept;
    mlx5::Syndrome reach_word(const ReceiveEntries& entries, const RemoteAtomic& operation,
                              std::byte*& word) const noexcept;

    QueuePairShared* shared_;
    std::uint64_t atomics_ = 0;  // executed for the peer
};

}  // namespace verbatim::softnic
