// A queue pair of the software NIC: memory, state machine, the two engines and who may run them
// when.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "../softqueue/gate.hpp"
#include "../softqueue/queue_memory.hpp"
#include "../softqueue/strict_doorbell.hpp"
#include "completion_queue.hpp"
#include "device.hpp"
#include "engine/receive_engine.hpp"
#include "engine/requester.hpp"
#include "links/description.hpp"
#include "ports/queue_pair_state.hpp"
#include "rings/attention.hpp"
#include "xrc_domain.hpp"

namespace verbatim::softnic {

// What a queue pair is made of.
struct QueuePairParts {
    mlx5::QueuePairView view;                 // without number and hook
    std::unique_ptr<QueuePairMemory> memory;  // behind the view; null: it is the caller's
    CompletionQueue* send_completions = nullptr;
    CompletionQueue* receive_completions = nullptr;
    SharedReceiveList* shared_receives = nullptr;  // null: the queue pair has receives of its own
    ProgressList* progress = nullptr;  // null, or another one than its completion queues
    FlowRequest flow_request;          // of datagram queue pairs
    GlobalRoute route{};               // likewise: precedes what is received
    std::uint32_t max_datagram = kMaxDatagramBytes;
    EventSink events;
    std::uint32_t domain = 0;  // protection domain; another one's keys are refused
    // How much data its completions may hold: received, and read or returned by atomics.
    std::uint32_t receive_in_entry = 0, result_in_entry = 0;
    // What completions carry as Cqe::shared_receive_index.
    std::uint32_t send_index = 0, receive_index = 0;
    // XRC: an initiator's requests name shared receive queues of its peer, a target receives for
    // those of its domain and has no queues of its own.
    bool names_queues = false;
    std::shared_ptr<XrcDomain> xrc_domain;
    // Its owner takes it through verbs' states (initialize(), receive_from(), start(), fail()), and
    // the peer's end alone is no error.
    bool follows_verbs = false;
};
// In memory of its own. Throws Error(invalid_argument | out_of_memory).
QueuePairParts own_parts(const QueuePairOptions& options);

class QueuePair final : public QueuePairHandle {
  public:
    // The one queue pair this one may talk to.
    struct Peer {
        Nonce nonce{};
        std::uint32_t number = 0;
        bool operator==(const Peer&) const = default;
    };

    QueuePair(std::shared_ptr<DeviceCore> core, QueuePairParts parts);
    ~QueuePair() override;

    const mlx5::QueuePairView& view() const noexcept override { return view_; }
    QueuePairAddress address() const override;
    void connect(const QueuePairAddress& peer, int timeout_ms) override;
    void fail() noexcept override;
    void reset() override;
    QueuePairState state() const noexcept override {
        return shared_.state.load(std::memory_order_acquire);
    }
    bool peer_lost() const noexcept override;
    bool data_in_order() const noexcept override { return true; }

    // Data path, from completion queues: drives both sides if there is something to do. Cools after
    // `patience` looks in vain.
    void progress(std::uint32_t patience = kPatient) noexcept;
    // Each list looks at it in its next round. After what is to be found was stored. Any thread.
    void heat() noexcept;
    // After a mark was taken, and a turn: wakes the engine thread if more is to be done. Under the
    // walk of a progress list.
    void ring_for_rest() const noexcept;
    // Whether each round looks at it. Any thread.
    bool hot() const noexcept { return attention_.hot(); }
    // Data path: requests were posted.
    void posted() noexcept;
    // Both sides, unconditionally.
    void execute() noexcept;
    // From a completion queue that is armed: leaves its sleep word where the peer looks.
    void tell_sleep(const CompletionQueue& queue) noexcept;
    // More could be done now than a turn did.
    bool unfinished() const noexcept {
        return (receive_->waiting() && !receive_->not_ready()) ||
               (shared_.receives() && (send_->owes_wake() || receive_->owes_wake()));
    }
    // Whether a thread that has just driven this queue pair must come back by itself, because
    // nobody will call when there is more to do: soon, for requests and messages that wait for a
    // time or for a receive; late, because receives may be posted to a queue that failed. Under the
    // walk of a progress list.
    enum class Return : std::uint8_t { never, late, soon };
    Return must_return() const noexcept;
    // The peer will ring when it has acknowledged what was sent. Any thread.
    bool awaits_peer() const noexcept { return send_->outstanding(); }
    // Requests that wait, whatever for. Any thread.
    bool unexecuted() const noexcept { return send_->unexecuted(); }
    // Control thread: raises the events of sleeping threads.
    void wake() noexcept;
    // Control thread. None: it is being made.
    std::optional<QueuePairFacts> facts() const;
    // Control path: between the two no engine runs. False: something was announced meanwhile, and
    // is left for catch_up().
    void stop() noexcept;
    bool go_on() noexcept;
    void catch_up() noexcept;

    // Verbs' states; control path, one caller at a time, and no connect() beside them.
    // From reset to initialized: receives may be posted.
    void initialize() noexcept;
    // From initialized to ready_to_receive: messages of this peer are received. Throws
    // Error(out_of_memory).
    void receive_from(const Peer& peer);
    // From ready_to_receive to ready, with a way to the peer: requests are executed.
    void start(std::shared_ptr<Link> link, ChannelSender outgoing) noexcept;
    // The process that may sleep until its messages are received.
    void acknowledge_to(std::shared_ptr<Link> link) noexcept;
    // There is no way to the peer: requests fail as those of a peer that does not answer.
    void give_up() noexcept;
    bool has_requests() const noexcept { return send_->waiting(); }
    // Where in the send queue the next request is executed.
    std::uint16_t executed() const noexcept { return send_->executed(); }
    // Of datagram queue pairs: from ready_to_receive to ready, and the answers to flow requests.
    void send_datagrams() noexcept;
    void add_flow(std::uint32_t number, std::shared_ptr<Link> link, ChannelSender ring) noexcept;
    void refuse_flow(std::uint32_t number, bool absent) noexcept;
    // As verbs' attributes of these names: what the peer may do here, how long it waits for a
    // receive (min_rnr_timer), how often this side does (rnr_retry).
    void set_allowed(Access allowed) noexcept;
    void set_not_ready_for(std::chrono::nanoseconds time) noexcept;
    void set_not_ready_retries(std::uint8_t retries) noexcept {
        shared_.not_ready_retries.store(retries);
    }
    // After which time a request that was lost is sent again, 0: never; and how often.
    void set_retries(std::chrono::nanoseconds after, std::uint8_t retries) noexcept {
        shared_.retry_after.store(after);
        shared_.retries.store(retries);
    }
    // Requests that are not begun wait (verbs' SQD); `report`: QueuePairEvent::drained.
    void pause_sending(bool report) noexcept {
        shared_.report_drained.store(report);
        shared_.paused.store(true);
        run_send();
    }
    void resume_sending() noexcept {
        shared_.report_drained.store(false);
        if (shared_.paused.exchange(false)) run_send();
    }
    bool draining() const noexcept { return shared_.paused.load() && send_->outstanding(); }
    void set_queue_key(std::uint32_t key) noexcept { shared_.queue_key.store(key); }
    bool datagrams() const noexcept { return shared_.datagrams(); }
    // Of XRC targets, by their domain: a shared receive queue has come, or goes. One that a message
    // was arriving in fails that message.
    void name_queue(const XrcQueue& queue) noexcept;
    void forget_queue(const XrcQueue& queue) noexcept;

    // Control thread: hands out the ring to the peer's queue pair, which claims this one. Throws
    // Error.
    ChannelPlace open_for(const LinkPeer& asking, std::uint32_t from);
    // Control thread: a peer's link is gone, and with it what its datagrams came through. Waits for
    // polls until `deadline` at most.
    void end_session(std::uint64_t session, Instant deadline) noexcept;

    std::string failure_text() const override { return std::string(shared_.failure.view()); }
    std::uint64_t receiver_not_ready_count() const noexcept;
    std::uint64_t faults_injected(FaultAction action) const noexcept;

  private:
    static void doorbell_hook(void* self, const volatile void* register_half) noexcept;
    void doorbell(const volatile void* register_half) noexcept;
    template <class Engine>
    void run_inside(Gate& gate, Engine& engine) noexcept;
    void leave_to_others(Gate& gate) noexcept;
    void heat_inside() noexcept;
    void leave_gates() noexcept;
    void run_send() noexcept;
    void admit_arrivals() noexcept;
    void run_receive() noexcept;
    void claim(const Peer& peer);
    void attach();
    void detach();
    void close() noexcept;
    bool dead_copy() noexcept;
    std::shared_ptr<AccessWord> forget_peer() noexcept;
    void end_reset(const std::shared_ptr<AccessWord>& ring) noexcept;
    static constexpr std::uint32_t kPatient = 1024;
    void cool() noexcept;
    bool has_work() const noexcept;
    void set_listens(bool listens) noexcept;
    std::vector<ProgressList*> lists() const;
    void make_ring(const Nonce& peer);
    void refuse_callers(bool refuse) noexcept;
    bool close_unclaimed() noexcept;
    void drop_ring() noexcept;
    void forget_ring() noexcept;
    void listen_to(const ChannelReceiver& ring);
    void listen_to(DatagramSources::Source& source);
    bool listen_no_more(const ChannelReceiver& ring, Leaving& done,
                        Instant deadline = Instant::max()) noexcept;
    std::unique_lock<std::mutex> hold_domain() const;
    ChannelPlace open_source(const LinkPeer& asking, std::uint32_t from);
    void sweep_sources(Instant deadline) noexcept;

    std::shared_ptr<DeviceCore> core_;
    const std::shared_ptr<XrcDomain> xrc_domain_;  // null: it is no XRC target
    CompletionQueue* send_completions_;
    CompletionQueue* receive_completions_;
    ProgressList* progress_;
    const bool follows_verbs_;
    std::unique_ptr<QueuePairMemory> memory_;
    mlx5::QueuePairView view_;
    QueuePairShared shared_;
    std::optional<StrictDoorbell> strict_;
    std::optional<Requester> send_;
    std::optional<ReceiveEngine> receive_;
    Gate send_gate_, receive_gate_;
    std::atomic<bool> made_{false};
    Attention attention_;
    std::vector<Attention::Listed> listed_;  // control path, one thread at a time
    ChannelTerms terms_;                 // guarded by mutex_; of the ring that there is, or will be
    std::atomic<bool> has_ring_{false};  // shared_.incoming is one

    mutable std::mutex mutex_;  // control path: the peer, shared_.link against peer_lost()
    std::optional<Peer> peer_;  // set by connect() or by the peer's, whichever comes first
    bool claimed_by_peer_ = false;
    bool closed_ = false;  // peers that ask for the ring are refused
};

}  // namespace verbatim::softnic
