// Fills a receive queue from the peer's messages: the consumer of the incoming ring. Only a thread
// of the receiving process runs it (the one that polls), so nobody else ever writes this queue
// pair's receives. Threads: the one inside the receive gate, but for waiting().
#pragma once

#include <atomic>
#include <cstdint>

#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/queue_view.hpp>

#include "completion_ring.hpp"
#include "memory_access.hpp"
#include "queue_pair_state.hpp"

namespace verbatim::softnic {

class ReceiveEngine {
  public:
    ReceiveEngine(const mlx5::QueuePairView& view, CompletionRing& completions,
                  const KeyTableView& keys, QueuePairShared& shared) noexcept;

    // Delivers what has arrived, a bounded number of records.
    void run() noexcept;

    // May be called outside the gate: true if run() could find something to do.
    bool waiting() const noexcept {
        if (shared_->is(QueuePairState::ready))
            return shared_->incoming.pending() || shared_->peer_lost();
        return shared_->is(QueuePairState::error) &&
               posted() != head_.load(std::memory_order_relaxed);
    }

    // Control path, gate closed.
    void reset() noexcept;

  private:
    std::uint16_t posted() const noexcept {
        return static_cast<std::uint16_t>(
            read_record(view_.doorbell_record + mlx5::kRecordReceive));
    }
    bool deliver(const RecordHeader& record, const std::byte* payload) noexcept;
    bool begin() noexcept;
    bool place(const RecordHeader& record, const std::byte* payload) noexcept;
    bool complete(const RecordHeader& record) noexcept;
    mlx5::Syndrome receive_list(PieceList& list) noexcept;
    void fail(mlx5::Syndrome own, mlx5::Syndrome peers) noexcept;
    void flush() noexcept;

    mlx5::QueuePairView view_;
    CompletionRing* completions_;
    QueuePairShared* shared_;
    LocalMemory local_;

    std::atomic<std::uint16_t> head_{0};  // next receive to fill
    bool in_message_ = false;
    bool counted_not_ready_ = false;
    std::uint64_t received_ = 0;                            // bytes of the current message
    mlx5::Syndrome first_error_ = mlx5::Syndrome::flushed;  // of the receive that is flushed first
};

}  // namespace verbatim::softnic
