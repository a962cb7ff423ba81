// A queue pair of the software NIC: memory, state machine, the two engines and who may run them
// when.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <verbatim/driver/device.hpp>

#include "completion_queue.hpp"
#include "device.hpp"
#include "gate.hpp"
#include "queue_memory.hpp"
#include "queue_pair_state.hpp"
#include "receive_engine.hpp"
#include "send_engine.hpp"
#include "strict_doorbell.hpp"

namespace verbatim::softnic {

class QueuePair final : public QueuePairHandle {
  public:
    QueuePair(std::shared_ptr<DeviceCore> core, const QueuePairOptions& options);
    ~QueuePair() override;

    const mlx5::QueuePairView& view() const noexcept override { return memory_->view(); }
    QueuePairAddress address() const override;
    void connect(const QueuePairAddress& peer, int timeout_ms) override;
    void fail() noexcept override;
    void reset() override;
    QueuePairState state() const noexcept override {
        return shared_.state.load(std::memory_order_acquire);
    }
    bool peer_lost() const noexcept override;

    // Data path, from completion queues: drives both sides if there is something to do.
    void progress() noexcept;
    // Both sides, unconditionally.
    void execute() noexcept;
    // From a completion queue that is armed: leaves its sleep word where the peer looks.
    void tell_sleep(const CompletionQueue& queue) noexcept;
    // Messages that could be received now.
    bool has_arrivals() const noexcept { return receive_->waiting() && !receive_->not_ready(); }
    // Control thread: raises the events of whoever sleeps.
    void wake() noexcept;
    // Control path: between the two no engine runs.
    void stop() noexcept;
    void go_on() noexcept;

    // Control thread: hands out the ring to the peer's queue pair, which claims this one. Throws
    // Error.
    std::shared_ptr<SharedMemory> open_for(const Nonce& peer, std::uint32_t from);

    std::string failure_text() const override { return std::string(shared_.failure.view()); }
    std::uint64_t receiver_not_ready_count() const noexcept;

  private:
    // The one queue pair this one may talk to: set by connect() or by the peer's, whichever comes
    // first.
    struct Peer {
        Nonce nonce{};
        std::uint32_t number = 0;
        bool operator==(const Peer&) const = default;
    };

    static void doorbell_hook(void* self, const volatile void* register_half) noexcept;
    void doorbell(const volatile void* register_half) noexcept;
    void run_send() noexcept;
    void run_receive() noexcept;
    void claim(const Peer& peer);
    void start(std::shared_ptr<Link> link, ChannelSender outgoing) noexcept;
    void attach();
    void detach();
    bool dead_copy() noexcept;
    void forget_peer(ChannelReceiver fresh) noexcept;

    std::shared_ptr<DeviceCore> core_;
    CompletionQueue* send_completions_;
    CompletionQueue* receive_completions_;
    std::optional<QueuePairMemory> memory_;
    QueuePairShared shared_;
    std::optional<StrictDoorbell> strict_;
    std::optional<SendEngine> send_;
    std::optional<ReceiveEngine> receive_;
    Gate send_gate_, receive_gate_;

    mutable std::mutex mutex_;  // control path: the peer, shared_.link against peer_lost()
    std::optional<Peer> peer_;
    bool claimed_by_peer_ = false;
};

}  // namespace verbatim::softnic
