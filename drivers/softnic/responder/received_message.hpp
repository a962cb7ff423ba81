// The message that is arriving: the memory of its receive, and its completion. Threads: the one
// inside the receive gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../keys/access_sequence.hpp"
#include "receive_entries.hpp"

namespace verbatim::softnic {

class ReceivedMessage {
  public:
    explicit ReceivedMessage(QueuePairShared& shared) noexcept;

    // To memory of this process, by its keys.
    AccessSequence& access() noexcept { return access_; }
    std::uint64_t bytes() const noexcept { return bytes_; }
    void begin(std::uint64_t bytes = 0) noexcept {
        bytes_ = bytes;
        in_entry_ = nullptr;
    }
    // The memory of the current receive. Looked up anew for every record: its region may go
    // meanwhile.
    static mlx5::Syndrome list(ReceiveEntries& entries, PieceList& list) noexcept;
    // Brings a record's payload there. False: it does not fit, or the queue pair failed.
    bool place(ReceiveEntries& entries, const RecordHeader& record,
               const std::byte* payload) noexcept;
    // `cqe`: with what no record says. False: the queue pair failed.
    bool complete(ReceiveEntries& entries, const RecordHeader& record, mlx5::Cqe cqe = {}) noexcept;

  private:
    bool keep_for_entry(const ReceiveEntries& entries, const RecordHeader& record,
                        const std::byte* payload, const PieceList& list) noexcept;

    QueuePairShared* shared_;
    AccessSequence access_;
    std::uint64_t bytes_ = 0;
    // If they are to go into the completion; still in the ring.
    const std::byte* in_entry_ = nullptr;
};

}  // namespace verbatim::softnic
