// Writes the completions of a send queue: in the order of posting, each request exactly once.
// Requests that the peer has not answered hold back the completions after them. Owner: the
// requester. Threads: the one inside the send gate, but for outstanding().
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "../../softqueue/completion_ring.hpp"
#include "../ports/chosen_port.hpp"
#include "../ports/send_request.hpp"
#include "../queue_pair/queue_pair_state.hpp"
#include "entry_data.hpp"
#include "request_elements.hpp"

namespace verbatim::softnic {

class CompletionOrder {
  public:
    CompletionOrder(const mlx5::QueuePairView& view, CompletionRing& completions,
                    QueuePairShared& shared, ChosenPort& port, RequestElements& elements);

    // How many requests have completions that are to be written. Any thread.
    std::uint32_t outstanding() const noexcept { return count_.load(std::memory_order_relaxed); }
    bool full() const noexcept { return outstanding() == view_.send_blocks; }
    // Results of reads and atomic operations are on their way.
    bool awaits_results() const noexcept { return results_due_ != 0; }
    // A failed request waits for those before it; nothing more is to be executed.
    bool stopped() const noexcept { return stopped_; }

    // Where the result of a read or an atomic operation goes, and in which byte order: into its
    // completion, if it is small and its queue pair wants that.
    void keep_for_entry(SendRequest& request, std::size_t first_unit, PieceList& list) noexcept;
    // The next request was executed. Completes it at once if nothing before it is outstanding.
    void finish(const ExecutedRequest& result) noexcept;
    // Completes what the peer has answered. `silent`: asked of the port before.
    void harvest(bool silent) noexcept;

    // Error state: false, the completion queue is full.
    bool flush_outstanding() noexcept;
    bool flush(const ExecutedRequest& result) noexcept {
        return push_error(result, reason(result));
    }
    // Memory for the oldest request's result is not there. False: no result was being taken.
    bool fail_taking() noexcept;
    void reset() noexcept;

  private:
    ExecutedRequest& oldest() noexcept { return ring_[oldest_ & (view_.send_blocks - 1)]; }
    void forget_oldest() noexcept;
    std::byte* entry_data(const ExecutedRequest& result) const noexcept {
        return entry_data_[result.index & (view_.send_blocks - 1)].data();
    }
    bool answered(ExecutedRequest& oldest) noexcept;
    bool take_result(ExecutedRequest& oldest) noexcept;
    void retire_answered() noexcept;
    bool waited_too_long(Ticket ticket) noexcept;
    bool retire(const ExecutedRequest& result) noexcept;
    mlx5::Cqe success(const ExecutedRequest& result) const noexcept;
    bool push_success(const ExecutedRequest& result) noexcept;
    [[gnu::noinline]] bool push_with_data(const ExecutedRequest& result) noexcept;
    bool push_error(const ExecutedRequest& result, mlx5::Syndrome syndrome) noexcept;
    mlx5::Syndrome reason(const ExecutedRequest& result) const noexcept;

    mlx5::QueuePairView view_;
    CompletionRing* completions_;
    QueuePairShared* shared_;
    ChosenPort* port_;
    RequestElements* elements_;

    // send_blocks entries. Memory of zeros that is there when it is first written: oldest_ starts
    // again whenever nothing is outstanding, so a queue pair has as much as it ever needed at once.
    struct Free {
        void operator()(void* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<ExecutedRequest[], Free> ring_;
    // What requests return until their completions are written; likewise, or none.
    std::unique_ptr<std::array<std::byte, kDataInEntry>[]> entry_data_;
    std::uint32_t oldest_ = 0;
    std::atomic<std::uint32_t> count_{0};
    std::uint32_t results_due_ = 0;
    bool stopped_ = false;
    bool error_reported_ = false;  // the completion that says why was written
    bool takes_result_ = false;    // into the elements of the oldest request
    // The oldest ticket, since it was first seen to find no receive.
    Ticket waiting_ticket_ = 0;
    std::chrono::steady_clock::time_point waiting_since_;
};

}  // namespace verbatim::softnic
