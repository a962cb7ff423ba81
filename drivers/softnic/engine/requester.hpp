// Executes a send queue: reads its entries, gives them to the queue pair's port (port.hpp) in the
// order of posting, and has their completions written in that order (completion_order.hpp).
// Threads: the one inside the send gate, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "../../softqueue/completion_ring.hpp"
#include "../../softqueue/posted_requests.hpp"
#include "../faults/request_faults.hpp"
#include "../ports/chosen_port.hpp"
#include "../ports/send_request.hpp"
#include "../queue_pair/queue_pair_state.hpp"
#include "completion_order.hpp"
#include "request_counts.hpp"
#include "request_elements.hpp"
#include "request_executor.hpp"

namespace verbatim::softnic {

struct RequesterOptions {
    bool strict_doorbells = false;
    std::unique_ptr<FaultInjector> faults;  // null: none
    Port* port = nullptr;  // instead of the shm port, where it is not null; outlives the requester
};

class Requester {
  public:
    Requester(const mlx5::QueuePairView& view, CompletionRing& completions, KeyTable& keys,
              QueuePairShared& shared, RequesterOptions options);

    // Does what can be done now: at most what was posted when it began.
    void run() noexcept;
    // Instead of the rest of a run(), which touched memory that is not there.
    void recover(const void* address) noexcept;

    // Any thread: true if run() could find something to do.
    bool waiting() const noexcept {
        return outstanding() != 0 ||
               shared_->limits.report_drained.load(std::memory_order_relaxed) || unexecuted() ||
               posted_.rejected() || port_.owes();
    }
    // Any thread. How many requests have completions that are to be written.
    std::uint32_t outstanding() const noexcept { return order_.outstanding(); }
    // Any thread. Requests that wait for room in the peer's ring, or for their turn.
    bool unexecuted() const noexcept { return posted_.limit() != executed(); }
    // Any thread. Requests executed so far, modulo 2^16 blocks.
    std::uint16_t executed() const noexcept { return head_.load(std::memory_order_relaxed); }
    // The peer's memory by the shm port, if a write that were posted now would be executed at once;
    // else null.
    RemoteMemory* memory_now() noexcept;
    PostedRequests& posted() noexcept { return posted_; }
    // Any thread, as Port says.
    const ChosenPort& port() const noexcept { return port_; }
    const RequestCounts& counts() const noexcept { return counts_; }
    const RequestFaults& faults() const noexcept { return faults_; }

    // Control path, gate closed.
    // To the peer by this port, until reset(); null: by shared memory. The shm port in any case.
    ShmPort& bind(std::unique_ptr<Port> port) {
        port != nullptr ? port_.use(std::move(port)) : port_.shm().bind();
        return port_.shm();
    }
    void reset() noexcept;
    DatagramSender& datagrams() noexcept { return executor_.datagrams(); }

  private:
    bool silent() const noexcept {
        return !shared_->traits.datagrams() && (port_.silent() || faults_.peer_lost());
    }
    void harvest(bool silent) noexcept;
    void drain(bool silent) noexcept;
    void execute_posted(bool silent) noexcept;
    void execute_rejected(std::uint16_t end) noexcept;
    bool execute_next(std::uint16_t end, bool silent) noexcept;
    bool fail_next(mlx5::Syndrome syndrome, std::uint32_t blocks) noexcept;
    void advance(std::uint16_t head) noexcept;
    bool settle(SendRequest& request, const PortAnswer& answer) noexcept;
    void flush() noexcept;

    mlx5::QueuePairView view_;
    QueuePairShared* shared_;
    ChosenPort port_;
    RequestElements elements_;
    CompletionOrder order_;
    RequestFaults faults_;
    RequestExecutor executor_;
    PostedRequests posted_;
    std::atomic<std::uint16_t> head_{0};  // next request to execute
    RequestCounts counts_;
};

}  // namespace verbatim::softnic
