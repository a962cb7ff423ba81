// The software NIC's device object and what its queue pairs and regions need of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <verbatim/driver/device.hpp>
#include <verbatim/softnic/softnic.hpp>

#include "absence/absent_poller.hpp"
#include "faults/fault_injector.hpp"
#include "host/file_table.hpp"
#include "keys/key_table.hpp"
#include "links/control_thread.hpp"
#include "links/identity.hpp"
#include "links/link_table.hpp"
#include "queue_pair/queue_pair_table.hpp"
#include "queue_pair/wire_services.hpp"
#include "rings/ring_supply.hpp"

namespace verbatim::softnic {

// Gives numbers to completion queues and shared receive queues. Threads: any.
class ObjectNumbers {
  public:
    explicit ObjectNumbers(const Identity& identity) noexcept
        : first_(identity.first_number), last_(identity.last_number) {}
    std::uint32_t next_completion_queue() noexcept;
    // From the same numbers as queue pairs': those of unmodified programs are unique per host.
    std::uint32_t next_shared_receive_queue() noexcept;

  private:
    const std::uint32_t first_, last_;
    std::atomic<std::uint32_t> completion_queue_{1}, shared_receive_queue_{0};
};

// Shared by the device and everything made from it, so that the order of destruction does not
// matter.
class DeviceCore final : public ControlService, public std::enable_shared_from_this<DeviceCore> {
  public:
    // Under a random name; or under the given one.
    explicit DeviceCore(const Options& options) : DeviceCore(options, random_identity(), {}) {}
    DeviceCore(const Options& options, Identity identity, const Bell& bell);
    ~DeviceCore() = default;

    const Options& options() const noexcept { return options_; }
    KeyTable& keys() noexcept { return keys_; }
    FileTable& files() noexcept { return files_; }
    // Null: the device has none.
    AbsentPoller* absent_poller() noexcept { return absent_poller_ ? &*absent_poller_ : nullptr; }
    RingSupply& rings() noexcept { return rings_; }
    WireServices& wires() noexcept { return wires_; }
    const Nonce& nonce() const noexcept { return identity_.nonce; }
    const std::string& socket_name() const noexcept { return identity_.socket_name; }
    // True in a forked child: locks, threads and shared memory belong to the parent.
    bool inherited() const noexcept { return generation_ != fork_generation(); }

    std::uint32_t add_queue_pair(QueuePair& queue_pair);
    void remove_queue_pair(std::uint32_t number);
    // For another queue pair; null without a fault policy.
    std::unique_ptr<FaultInjector> next_fault_injector();
    ObjectNumbers& numbers() noexcept { return numbers_; }

    // The link to the peer's device, shared with other queue pairs. Throws Error as Link::open.
    // No deadline: only if there is one already, else null.
    std::shared_ptr<Link> link_to(const QueuePairAddress& peer, std::optional<Instant> deadline);
    void count_invalidation() noexcept { __atomic_fetch_add(&epoch_, 1, __ATOMIC_RELEASE); }
    const volatile std::uint64_t* epoch() const noexcept { return &epoch_; }

    ChannelPlace open_channel(const LinkPeer& peer, std::uint32_t from, std::uint32_t to) override;
    void end_session(std::uint64_t session) override;
    void wake(std::uint32_t number, WakeFor what) override;
    void wake_all() override;
    // For this device's own engine thread, if it has one: there is something to look for. Any
    // thread.
    void ring_own_bell() const noexcept {
        if (bell_) bell_.ring();
    }
    std::string describe() override;

  private:
    QueuePairTable::Numbers more_numbers();

    Options options_;
    std::uint64_t generation_ = fork_generation();
    Identity identity_;
    const Bell bell_;
    KeyTable keys_;
    FileTable files_;
    RingSupply rings_;
    WireServices wires_;
    std::uint64_t epoch_ = 0;
    std::atomic<std::uint64_t> next_injector_{0};
    ObjectNumbers numbers_{identity_};

    QueuePairTable queue_pairs_;
    LinkTable links_;
    std::optional<AbsentPoller> absent_poller_;
    std::optional<ControlThread> control_;  // last: it serves the members above
};

}  // namespace verbatim::softnic
