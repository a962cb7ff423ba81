// A queue pair of the software NIC: its engines and their turns, its connection, and its states.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <verbatim/driver/device.hpp>

#include "device.hpp"
#include "direct/direct_access.hpp"
#include "links/description.hpp"
#include "queue_pair/source_admission.hpp"
#include "queue_pair_states.hpp"
#include "xrc_target.hpp"

namespace verbatim::softnic {

class QueuePair final : public QueuePairHandle {
  public:
    using Return = QueuePairEngines::Return;

    QueuePair(std::shared_ptr<DeviceCore> core, QueuePairParts parts);
    ~QueuePair() override;

    const mlx5::QueuePairView& view() const noexcept override { return turns_.engines().view(); }
    QueuePairAddress address() const override;
    void connect(const QueuePairAddress& peer, int timeout_ms) override;
    bool connect_soon(const QueuePairAddress& peer) override;
    void fail() noexcept override {
        close_remote();
        states_.fail();
    }
    void reset() override {
        close_remote();
        states_.reset();
    }
    std::byte* open_remote(std::uint64_t address, std::size_t bytes,
                           std::uint32_t remote_key) noexcept override;
    void close_remote() noexcept override {
        if (direct_ != nullptr) direct_->close();
    }
    QueuePairState state() const noexcept override {
        return shared().state.load(std::memory_order_acquire);
    }
    bool peer_lost() const noexcept override;
    bool data_in_order() const noexcept override { return true; }
    std::string failure_text() const override { return std::string(shared().failure.text.view()); }

    // Data path: execution of requests, and whether rounds look at it.
    QueuePairTurns& turns() noexcept { return turns_; }
    const QueuePairTurns& turns() const noexcept { return turns_; }
    // Control path.
    QueuePairStates& states() noexcept { return states_; }
    ConnectionSetup& setup() noexcept { return setup_; }
    SourceAdmission& sources() noexcept { return sources_; }
    XrcTarget& target() noexcept { return target_; }
    QueuePairLimits& limits() noexcept { return turns_.engines().shared().limits; }

    // Control thread. None: it is being made.
    std::optional<QueuePairFacts> facts() const;
    // Control thread: hands out the ring to the peer's queue pair. Throws Error.
    ChannelPlace open_for(const LinkPeer& asking, std::uint32_t from);
    // Control thread: a peer's link is gone. Waits for polls until `deadline` at most.
    void end_session(std::uint64_t session, Instant deadline) noexcept;

    std::uint64_t receiver_not_ready_count() const noexcept;

  private:
    const QueuePairShared& shared() const noexcept { return turns_.engines().shared(); }

    std::shared_ptr<DeviceCore> core_;
    XrcTarget target_;
    QueuePairTurns turns_;
    ConnectionSetup setup_;
    SourceAdmission sources_;  // of datagram queue pairs
    QueuePairStates states_;
    std::unique_ptr<DirectAccess> direct_;  // null until it is asked for
    std::atomic<bool> made_{false};
};

}  // namespace verbatim::softnic
