// Executes a send queue: one-sided requests at once, by this thread, in the peer's memory;
// two-sided ones into the peer's ring. Completions come in the order of posting: a send that the
// peer has not acknowledged holds back the completions after it, although later one-sided requests
// have been executed already. What is guaranteed at the peer is RC's rule in one direction:
// whatever was posted before a send (or an immediate) is in place when the peer sees that message
// arrive. A later write may become visible before an earlier send is delivered. Threads: the one
// inside the send gate, but for waiting() and ring().
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/queue_view.hpp>

#include "completion_ring.hpp"
#include "entry_data.hpp"
#include "fault_injector.hpp"
#include "memory_access.hpp"
#include "queue_pair_state.hpp"
#include "remote_atomic.hpp"
#include "wqe_reader.hpp"

namespace verbatim::softnic {

inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 30;

class SendEngine {
  public:
    SendEngine(const mlx5::QueuePairView& view, CompletionRing& completions, KeyTable& keys,
               QueuePairShared& shared, bool strict,
               std::unique_ptr<FaultInjector> faults = nullptr);

    // Does what can be done now: at most what was posted when it began.
    void run() noexcept;

    // Instead of the rest of a run(), which touched memory that is not there.
    void recover(const void* address) noexcept;

    // May be called outside the gate: true if run() could find something to do.
    bool waiting() const noexcept {
        return unretired_.load(std::memory_order_relaxed) != 0 ||
               shared_->report_drained.load(std::memory_order_relaxed) ||
               limit() != head_.load(std::memory_order_relaxed) ||
               rejected_.load(std::memory_order_relaxed) || owes_wake();
    }
    // The peer is asleep, and could not be told of something yet.
    bool owes_wake() const noexcept { return owes_wake_.load(std::memory_order_relaxed); }
    // Requests whose completions are to be written.
    bool outstanding() const noexcept { return unretired_.load(std::memory_order_relaxed) != 0; }
    // Requests that wait for room in the peer's ring, or for their turn.
    bool unexecuted() const noexcept { return limit() != head_.load(std::memory_order_relaxed); }
    // The peer has no receive for a message, and there is an end to waiting for one. Of a queue
    // pair that is ready; any thread.
    bool counts_time() const noexcept {
        return outstanding() &&
               shared_->not_ready_retries.load(std::memory_order_relaxed) !=
                   QueuePairShared::kForEver &&
               !shared_->datagrams() && shared_->outgoing.a_message_waits();
    }
    // Requests executed so far, modulo 2^16 blocks. Any thread.
    std::uint16_t executed() const noexcept { return head_.load(std::memory_order_relaxed); }
    // Strict doorbells: everything before `counter` may be executed.
    void ring(std::uint16_t counter) noexcept { rung_.store(counter, std::memory_order_release); }
    // Strict doorbells: the request after the last good doorbell fails.
    void reject() noexcept { rejected_.store(true, std::memory_order_release); }

    // Requests executed since the queue pair was made. Any thread.
    std::uint64_t requests() const noexcept { return requests_.load(std::memory_order_relaxed); }
    // Payload of those: for the peer, and what reads and atomics asked of it. Any thread.
    std::uint64_t bytes_sent() const noexcept {
        return bytes_sent_.load(std::memory_order_relaxed);
    }
    std::uint64_t bytes_fetched() const noexcept {
        return bytes_fetched_.load(std::memory_order_relaxed);
    }
    // Null without a fault policy.
    const FaultInjector* faults() const noexcept { return faults_.get(); }

    // Control path, gate closed.
    void bind();
    void reset() noexcept;
    // The ring into a queue pair that was asked for, or that there is none.
    void add_flow(std::uint32_t number, std::shared_ptr<Link> link, ChannelSender ring) noexcept;
    void refuse_flow(std::uint32_t number) noexcept;

  private:
    // An executed request whose completion is not written yet.
    struct Unretired {
        std::uint64_t message =
            0;  // 0, or the number of the message whose acknowledgement it waits for
        std::uint32_t bytes = 0;
        std::uint16_t index = 0;
        std::uint8_t opcode = 0;
        bool signaled = false;
        mlx5::Syndrome syndrome = kNoSyndrome;
        std::uint8_t result_unit = 0;  // where the elements for the peer's answer start, 0: none
        bool in_entry = false;         // what it returns goes into its completion
    };
    enum class Verdict : std::uint8_t { done, waits, failed };
    struct Request {
        WqeReader wqe;
        mlx5::ControlSegment control;
        Unretired result;
        std::uint64_t sent = 0;  // bytes of its payload for the peer
    };

    std::uint16_t limit() const noexcept {
        return strict_ ? rung_.load(std::memory_order_acquire)
                       : static_cast<std::uint16_t>(
                             read_record(view_.doorbell_record + mlx5::kRecordSend));
    }

    void execute_posted(bool silent) noexcept;
    void drain(bool silent) noexcept;
    bool write_quickly(std::uint16_t end) noexcept;
    bool execute_next(std::uint16_t end, bool silent) noexcept;
    bool fail_next(mlx5::Syndrome syndrome, std::uint32_t blocks) noexcept;
    bool allowed(Access wanted) noexcept;
    Verdict execute(Request& request) noexcept;
    Verdict execute_or_strike(Request& request) noexcept;
    Verdict lose(Request& request) noexcept;
    Verdict repeat(Request& request) noexcept;
    void damage(PieceList& list) noexcept;
    void advance(std::uint16_t head) noexcept;
    static void add(std::atomic<std::uint64_t>& counter, std::uint64_t more) noexcept {
        // One writer at a time.
        counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
    void count_request() noexcept { add(requests_, 1); }
    Verdict write(Request& request) noexcept;
    Verdict read(Request& request) noexcept;
    Verdict send(Request& request) noexcept;
    Verdict atomic(Request& request) noexcept;
    mlx5::Syndrome reach_word(const Request& request, std::uint32_t bytes,
                              RemoteRange& range) noexcept;
    Verdict atomic_at_peer(Request& request, const RemoteAtomic& operation,
                           std::size_t result_unit) noexcept;
    void take_atomic_result(Unretired& oldest) noexcept;
    bool put_through_peer(const Request& request, const PieceList& list, bool last) noexcept;
    Verdict get_through_peer(Request& request, const PieceList& list) noexcept;
    void take_answers(const PieceList& list) noexcept;
    mlx5::Syndrome silence() const noexcept;
    void ask_for_pieces(const Request& request, const PieceList& list) noexcept;
    Verdict update_key(Request& request) noexcept;
    KeyUpdate open_window(const Request& request) noexcept;
    Verdict name_queue(Request& request) noexcept;
    Verdict send_datagram(Request& request) noexcept;
    Flow* flow_to(std::uint32_t number, Verdict& verdict) noexcept;
    Verdict fail(Request& request, mlx5::Syndrome syndrome) noexcept;
    Verdict no_room(Request& request) noexcept;
    void wake_receiver(bool noteworthy) noexcept;
    void handed_over(Request& request, bool solicited) noexcept;
    mlx5::Syndrome collect(const Request& request, std::size_t first_unit, Access wanted,
                           PieceList& list) noexcept;
    std::size_t collect_inline(const WqeReader& wqe, std::size_t unit, std::uint32_t bytes,
                               PieceList& list) noexcept;

    void keep_for_entry(Unretired& result, const Request& request, std::size_t first_unit,
                        PieceList& list) noexcept;
    std::byte* entry_data(const Unretired& result) const noexcept {
        return entry_data_[result.index & (view_.send_blocks - 1)].data();
    }
    void finish(const Unretired& result) noexcept;
    bool keep(const Unretired& result) noexcept;
    void harvest(bool silent) noexcept;
    void harvest_in_order(bool silent) noexcept;
    bool names_local(const Request& request, const void* address) noexcept;
    bool waited_too_long(std::uint64_t message) noexcept;
    bool retire(const Unretired& result) noexcept;
    mlx5::Cqe success(const Unretired& result) const noexcept;
    Unretired& oldest() noexcept;
    void forget_oldest() noexcept;
    void retire_acknowledged() noexcept;
    bool push_success(const Unretired& result) noexcept;
    [[gnu::noinline]] bool push_with_data(const Unretired& result) noexcept;
    bool push_error(const Unretired& result, mlx5::Syndrome syndrome) noexcept;
    void flush() noexcept;
    void overflow() noexcept;

    mlx5::QueuePairView view_;
    CompletionRing* completions_;
    QueuePairShared* shared_;
    KeyTable* keys_;
    LocalMemory local_;
    RemoteMemory remote_;
    const bool strict_;
    // Units of every request before what its opcode needs: control segment, and XRC segment.
    static constexpr std::uint8_t kPlainUnits = 1, kXrcUnits = 2;
    const std::uint8_t first_unit_;
    std::unique_ptr<FaultInjector> faults_;
    bool damages_ = false;  // what the current request sends
    std::byte damaged_byte_{};

    std::atomic<std::uint16_t> head_{0};  // next request to execute
    std::atomic<std::uint16_t> rung_{0};
    std::atomic<std::uint64_t> requests_{0}, bytes_sent_{0}, bytes_fetched_{0};
    std::atomic<bool> rejected_{false};
    bool stopped_ = false;  // a failed request waits for those before it; nothing more is executed
    bool error_reported_ = false;  // the completion that says why was written
    std::uint64_t messages_ = 0;   // handed to the ring completely
    std::uint64_t sent_ = 0;       // bytes of the current request handed to the ring, or asked for
    bool message_begun_ = false;
    std::uint32_t named_queue_ = 0;  // the peer's shared receive queue; 0: none yet
    bool takes_result_ = false;  // of an atomic operation, into the elements of the oldest request
    // Atomic operations that the peer executes.
    std::uint64_t atomics_asked_ = 0, atomics_answered_ = 0;
    // Pieces of the peer's memory; bytes of them that the current request has.
    std::uint64_t pieces_asked_ = 0, pieces_taken_ = 0, taken_ = 0;
    // The oldest message, since it was first seen to find no receive.
    std::uint64_t waiting_message_ = 0;
    std::chrono::steady_clock::time_point waiting_since_;
    std::atomic<bool> owes_wake_{false};  // the peer has not read what it was told before

    // send_blocks entries. Memory of zeros that is there when it is first written: oldest_ starts
    // again whenever nothing is outstanding, so a queue pair has as much as it ever needed at once.
    struct Free {
        void operator()(void* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<Unretired[], Free> unretired_ring_;
    // What requests return until their completions are written; likewise, or none.
    std::unique_ptr<std::array<std::byte, kDataInEntry>[]> entry_data_;
    std::uint32_t oldest_ = 0;
    std::atomic<std::uint32_t> unretired_{0};
};

}  // namespace verbatim::softnic
