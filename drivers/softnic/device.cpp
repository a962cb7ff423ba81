// Opening the software NIC, its regions, and what its control thread serves.
#include "device.hpp"

#include <bit>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "completion_queue.hpp"
#include "keys/revocation.hpp"
#include "links/description.hpp"
#include "memory_window.hpp"
#include "queue_pair.hpp"
#include "shared_receive_queue.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::uint32_t kNumberMask = 0xffffff;  // of completion queues
// For an answer of the peer's control thread, which comes within 0.1 ms from a process that runs.
// The rest of the wait is left to later polls: a stopped peer holds nobody else up.
constexpr std::chrono::milliseconds kWaitInPlace{10};

void check(const Options& options) {
    if (options.ring_bytes != 0 &&
        (!std::has_single_bit(options.ring_bytes) || options.ring_bytes < 64))
        throw Error(Errc::invalid_argument, options.name,
                    fmt::format("ring_bytes is {}, it must be a power of two and at least 64",
                                options.ring_bytes));
    for (const FaultRule& rule : options.faults.rules) check(rule, options.name);
}

// What a forked child makes would be in its parent's memory.
void check_own(const DeviceCore& core) {
    if (core.inherited())
        throw Error(Errc::permission_denied, core.options().name,
                    "it is the parent's: a forked child cannot use it",
                    "open a device in the child");
}

class Region final : public MemoryRegion {
  public:
    Region(std::shared_ptr<DeviceCore> core, std::byte* address, std::size_t bytes, Access access,
           MemoryBacking backing)
        : core_(std::move(core)) {
        if (bytes == 0 || reinterpret_cast<std::uintptr_t>(address) > UINTPTR_MAX - bytes)
            throw Error(Errc::invalid_argument, "memory region",
                        fmt::format("{} bytes at {}", bytes, static_cast<void*>(address)));
        address_ = address;
        bytes_ = bytes;
        if (backing.file >= 0)
            file_ = core_->files().acquire(backing.file, backing.offset + bytes,
                                           backing.sparse ? kSparseFile : 0);
        try {
            local_key_ = core_->keys().add(
                {reinterpret_cast<std::uintptr_t>(address), bytes, access, file_, backing.offset});
        } catch (...) {
            core_->files().release(file_);
            throw;
        }
        remote_key_ = local_key_;
    }
    ~Region() override {
        revoke();
        if (!free_ && !core_->inherited()) static_cast<void>(wait());
    }

    void release() override {
        const std::string object = fmt::format("memory region {:#x}", local_key_);
        if (!revoked_ && !core_->inherited() && !core_->keys().retire(local_key_))
            throw Error(Errc::invalid_argument, object, "a memory window is open onto it",
                        "close or free the window first");
        revoke();
        if (!core_->inherited() && !wait())
            throw Error(Errc::timeout, object,
                        "its keys are gone, but a peer that is stopped in the middle of a copy may "
                        "still write to it when it goes on (the log says which process)",
                        "keep the memory, and release the region again later");
        free_ = true;
    }

  private:
    void revoke() noexcept {
        if (std::exchange(revoked_, true)) return;
        mark_released();
        core_->count_invalidation();
        if (core_->inherited()) return;
        core_->keys().remove(local_key_);
        core_->files().release(file_);
    }
    // False: see release().
    bool wait() noexcept { return Revocation(core_->keys().accesses()).wait(); }

    std::shared_ptr<DeviceCore> core_;
    std::uint64_t file_ = 0;
    bool revoked_ = false;
    bool free_ = false;  // nobody touches the memory any more
};

class Barrier final : public RevocationBarrier {
  public:
    explicit Barrier(std::shared_ptr<DeviceCore> core)
        : core_(std::move(core)), revocation_(core_->keys().accesses()) {}
    bool has_passed() noexcept override { return core_->inherited() || revocation_.settled(); }

  private:
    std::shared_ptr<DeviceCore> core_;
    Revocation revocation_;
};

class SoftDevice final : public Device {
  public:
    explicit SoftDevice(const Options& options) : core_(std::make_shared<DeviceCore>(options)) {
        info_.name = options.name;
        info_.description = "software NIC, peers through shared memory or TCP, inline execution";
        info_.max_message_bytes = kMaxMessageBytes;
        info_.masked_atomics = true;
        info_.completions_wait = true;
    }

    const DeviceInfo& info() const noexcept override { return info_; }
    std::unique_ptr<MemoryRegion> register_memory(std::byte* address, std::size_t bytes,
                                                  Access access, MemoryBacking backing) override {
        check_own(*core_);
        return std::make_unique<Region>(core_, address, bytes, access, backing);
    }
    std::unique_ptr<MemoryWindow> create_memory_window(WindowType type) override {
        check_own(*core_);
        return std::make_unique<Window>(core_, type);
    }
    std::unique_ptr<RevocationBarrier> begin_barrier() override {
        return std::make_unique<Barrier>(core_);
    }
    using Device::create_completion_queue;
    std::unique_ptr<CompletionChannelHandle> create_completion_channel() override {
        return std::make_unique<CompletionChannel>();
    }
    std::unique_ptr<CompletionQueueHandle> create_completion_queue(
        std::uint32_t entries, CompletionChannelHandle* channel) override {
        auto* const own = dynamic_cast<CompletionChannel*>(channel);
        if (channel != nullptr && own == nullptr)
            throw Error(Errc::invalid_argument, core_->options().name,
                        "the completion channel belongs to another kind of device");
        const Options& options = core_->options();
        return std::make_unique<CompletionQueue>(CompletionQueue::Options{
            entries, options.completion_entry_bytes, core_->numbers().next_completion_queue(),
            options.parked, own});
    }
    std::unique_ptr<SharedReceiveQueueHandle> create_shared_receive_queue(
        const SharedReceiveQueueOptions& options) override {
        return std::make_unique<SharedReceiveQueue>(options,
                                                    core_->numbers().next_shared_receive_queue());
    }
    std::unique_ptr<QueuePairHandle> create_queue_pair(const QueuePairOptions& options) override {
        check_own(*core_);
        auto queue_pair = std::make_unique<QueuePair>(core_, own_parts(options));
        queue_pair->setup().streams().set_local_address(options.local_address);
        queue_pair->setup().set_carries_messages(options.carries_messages);
        return queue_pair;
    }
    const volatile std::uint64_t* invalidation_epoch() const noexcept override {
        return core_->epoch();
    }

  private:
    std::shared_ptr<DeviceCore> core_;
    DeviceInfo info_;
};

}  // namespace

DeviceCore::DeviceCore(const Options& options, Identity identity, const Bell& bell)
    : options_(options),
      identity_(std::move(identity)),
      bell_(bell),
      keys_({options.revocation_timeout, options.membarrier}),
      rings_(options.ring_bytes),
      // Programs of rdma-core tell their peers a number and nothing else.
      wires_{{identity_.by_slot ? PortKind::shm : options.port, options.same_user_only},
             PacketService(options)},
      queue_pairs_({identity_.first_number, identity_.last_number}),
      links_(options.name) {
    if (options.absent_poller && !options.parked && !bell) absent_poller_.emplace();
    control_.emplace(*this, keys_, files_,
                     ControlOptions{identity_.nonce, options.same_user_only, bell},
                     std::move(identity_.listener));
}

std::uint32_t DeviceCore::add_queue_pair(QueuePair& queue_pair) {
    return queue_pairs_.add(queue_pair, [this] { return more_numbers(); });
}

// Peers find queue pairs of these numbers at a name of their own.
QueuePairTable::Numbers DeviceCore::more_numbers() {
    if (!identity_.by_slot)
        throw Error(Errc::out_of_memory, options_.name, "all queue pair numbers are in use",
                    "destroy queue pairs first");
    Identity more = claim_slot();
    control_->listen(more.nonce, std::move(more.listener));
    return {more.first_number, more.last_number};
}

void DeviceCore::remove_queue_pair(std::uint32_t number) { queue_pairs_.remove(number); }

std::unique_ptr<FaultInjector> DeviceCore::next_fault_injector() {
    if (options_.faults.rules.empty()) return nullptr;
    return std::make_unique<FaultInjector>(options_.faults, next_injector_.fetch_add(1));
}

std::uint32_t ObjectNumbers::next_completion_queue() noexcept {
    return completion_queue_.fetch_add(1, std::memory_order_relaxed) & kNumberMask;
}

std::uint32_t ObjectNumbers::next_shared_receive_queue() noexcept {
    const std::uint32_t count = last_ - first_ + 1;
    return first_ + shared_receive_queue_.fetch_add(1, std::memory_order_relaxed) % count;
}

ChannelPlace DeviceCore::open_channel(const LinkPeer& peer, std::uint32_t from, std::uint32_t to) {
    if (from > kLastNumber)
        throw Error(Errc::protocol_error, options_.name, "no queue pair has so high a number");
    // A device with several slots asks under the name of its first one.
    LinkPeer asking = peer;
    if (identity_.by_slot) asking.session.nonce = address_of_number(from).nonce;
    return queue_pairs_.with(to, [&](QueuePair* found) {
        if (found == nullptr)
            throw Error(Errc::peer_lost, options_.name,
                        fmt::format("there is no queue pair {} (any more)", to));
        return found->open_for(asking, from);
    });
}

void DeviceCore::end_session(std::uint64_t session) {
    const Instant deadline = std::chrono::steady_clock::now() + kSweepTime;
    queue_pairs_.for_each(
        [&](QueuePair& queue_pair) { queue_pair.end_session(session, deadline); });
}

// An engine thread needs no word of the peer beside its bell.
void DeviceCore::wake(std::uint32_t number, WakeFor what) {
    queue_pairs_.with(number, [what](QueuePair* found) {
        if (found == nullptr) return;
        what == WakeFor::events ? found->turns().wake() : found->turns().absence().asked();
    });
}

void DeviceCore::wake_all() {
    queue_pairs_.for_each([](QueuePair& queue_pair) { queue_pair.turns().wake(); });
    ring_own_bell();
}

std::string DeviceCore::describe() {
    std::vector<QueuePairFacts> facts;
    queue_pairs_.for_each([&](const QueuePair& queue_pair) {
        if (const auto found = queue_pair.facts()) facts.push_back(*found);
    });
    return softnic::describe(options_.name, facts);
}

std::shared_ptr<Link> DeviceCore::link_to(const QueuePairAddress& peer,
                                          std::optional<Instant> deadline) {
    if (!deadline) return links_.known(peer.nonce);
    // Without an absent poller nothing else may bring a waiting request on.
    const auto in_place = absent_poller_ ? kWaitInPlace : options_.request_timeout;
    const LinkOptions options{
        nonce(), options_.same_user_only, {in_place, options_.request_timeout}};
    return links_.get(peer, options, *deadline, *control_, shared_from_this());
}

std::unique_ptr<Device> open_device(const Options& options) {
    check(options);
    return std::make_unique<SoftDevice>(options);
}

void execute(QueuePairHandle& queue_pair) noexcept {
    static_cast<QueuePair&>(queue_pair).turns().execute();
}

std::string failure_text(const QueuePairHandle& queue_pair) {
    return static_cast<const QueuePair&>(queue_pair).failure_text();
}

std::uint64_t faults_injected(const QueuePairHandle& queue_pair, FaultAction action) noexcept {
    const QueuePairTurns& turns = static_cast<const QueuePair&>(queue_pair).turns();
    return turns.engines().requester().faults().counted(action);
}

PacketCounts packet_counts(const QueuePairHandle& queue_pair) noexcept {
    const QueuePairTurns& turns = static_cast<const QueuePair&>(queue_pair).turns();
    const PeerStream* const stream = turns.engines().shared().connection.stream.load();
    return stream != nullptr ? stream->wire().packets() : PacketCounts{};
}

std::uint64_t receiver_not_ready_count(const QueuePairHandle& queue_pair) noexcept {
    return static_cast<const QueuePair&>(queue_pair).receiver_not_ready_count();
}

}  // namespace verbatim::softnic
