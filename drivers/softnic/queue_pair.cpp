// The queue pair's life: creation, connection, failure, reset; and the hooks of its data path.
#include "queue_pair.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "peer_waking.hpp"
#include "shared_receive_queue.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::uint8_t kAddressKind = 1;  // QueuePairAddress::kind of software NICs
// How often a thread goes round for others before it leaves the rest to the next doorbell or poll.
constexpr int kMaxRounds = 16;

CompletionQueue* completion_queue(CompletionQueueHandle* handle, const char* which) {
    auto* const queue = dynamic_cast<CompletionQueue*>(handle);
    if (queue == nullptr)
        throw Error(Errc::invalid_argument, "software NIC queue pair",
                    fmt::format("{} is missing or belongs to another kind of device", which));
    return queue;
}

// Null: the queue pair has receives of its own.
SharedReceiveList* shared_receives(SharedReceiveQueueHandle* handle) {
    if (handle == nullptr) return nullptr;
    auto* const queue = dynamic_cast<SharedReceiveQueue*>(handle);
    if (queue == nullptr)
        throw Error(Errc::invalid_argument, "software NIC queue pair",
                    "shared_receives belongs to another kind of device");
    return &queue->list();
}

template <class Engine>
void run_inside(Gate& gate, Engine& engine) noexcept {
    if (!gate.enter()) return;
    for (int round = 1;; ++round) {
        engine.run();
        if (round == kMaxRounds) return gate.leave_for_good();
        if (gate.leave()) return;
    }
}

}  // namespace

QueuePair::QueuePair(std::shared_ptr<DeviceCore> core, const QueuePairOptions& options)
    : core_(std::move(core)),
      send_completions_(completion_queue(options.send_completions, "send_completions")),
      receive_completions_(completion_queue(options.receive_completions, "receive_completions")) {
    const Options& device = core_->options();
    shared_.incoming = ChannelReceiver(device.ring_bytes, receive_completions_->may_sleep());
    shared_.number = core_->add_queue_pair(*this);
    try {
        memory_.emplace(options, shared_.number);
        if (!device.parked) memory_->view().doorbell_hook = {doorbell_hook, this};
        if (device.strict_doorbells) strict_.emplace(view(), shared_.failure);
        KeyTable& keys = core_->keys();
        send_.emplace(view(), send_completions_->ring(), keys, shared_,
                      device.strict_doorbells && !device.parked);
        receive_.emplace(view(), shared_receives(options.shared_receives),
                         receive_completions_->ring(), keys, shared_);
        send_completions_->add_writer(*this);
        receive_completions_->add_writer(*this);
        attach();
    } catch (...) {
        core_->remove_queue_pair(shared_.number);
        throw;
    }
}

QueuePair::~QueuePair() {
    if (core_->inherited()) return;
    core_->remove_queue_pair(shared_.number);
    detach();
    stop();
    receive_->give_back();
    go_on();
    send_completions_->remove_writer(*this);
    receive_completions_->remove_writer(*this);
    shared_.incoming.set_state(ReceiverState::closed);
    shared_.wake_peer();
}

void QueuePair::attach() {
    send_completions_->attach(*this);
    receive_completions_->attach(*this);
    // Whoever armed the queue before this one was in it could not tell its peer.
    tell_sleep(*receive_completions_);
}

void QueuePair::detach() {
    send_completions_->detach(*this);
    receive_completions_->detach(*this);
}

QueuePairAddress QueuePair::address() const {
    QueuePairAddress address;
    address.kind = kAddressKind;
    address.number = shared_.number;
    address.nonce = core_->nonce();
    const std::string& name = core_->socket_name();
    std::copy_n(name.begin(), std::min(name.size(), address.local_socket.size()),
                address.local_socket.begin());
    return address;
}

// Under mutex_.
void QueuePair::claim(const Peer& peer) {
    if (peer_.has_value() && *peer_ != peer)
        throw Error(
            Errc::invalid_argument, fmt::format("queue pair {}", shared_.number),
            fmt::format("it already belongs to a connection with queue pair {}", peer_->number),
            "use one queue pair per connection, or reset() it first");
    peer_ = peer;
}

std::shared_ptr<SharedMemory> QueuePair::open_for(const Nonce& peer, std::uint32_t from) {
    const std::lock_guard lock(mutex_);
    if (shared_.is(QueuePairState::error))
        throw Error(Errc::peer_lost, fmt::format("queue pair {}", shared_.number),
                    "it is in the error state");
    claim({peer, from});
    claimed_by_peer_ = true;
    return shared_.incoming.memory();
}

void QueuePair::connect(const QueuePairAddress& peer, int timeout_ms) {
    const std::string object = fmt::format("queue pair {}", shared_.number);
    if (core_->inherited())
        throw Error(Errc::device_error, object, "it was inherited through fork()",
                    "open a device in the child");
    if (peer.kind != kAddressKind)
        throw Error(Errc::unsupported, object, "the peer's device is no software NIC",
                    "choose the same device.kind on both sides");
    const Instant deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    {
        const std::lock_guard lock(mutex_);
        if (!shared_.is(QueuePairState::reset))
            throw Error(Errc::invalid_argument, object, "it is connected already",
                        "reset() it first");
        claim({peer.nonce, peer.number});
    }
    try {
        std::shared_ptr<Link> link = core_->link_to(peer, deadline);
        ChannelSender outgoing(link->open_channel(shared_.number, peer.number, deadline));
        start(std::move(link), std::move(outgoing));
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!claimed_by_peer_) peer_.reset();
        throw;
    }
}

void QueuePair::stop() noexcept {
    send_gate_.enter_waiting();
    receive_gate_.enter_waiting();
}

void QueuePair::go_on() noexcept {
    receive_gate_.leave_for_good();
    send_gate_.leave_for_good();
}

void QueuePair::wake() noexcept {
    send_completions_->wake();
    receive_completions_->wake();
}

// As often as the queue is armed meanwhile: the last word counts.
void QueuePair::tell_sleep(const CompletionQueue& queue) noexcept {
    if (!queue.may_sleep()) return;
    std::uint32_t word = 0;
    do {
        word = queue.sleep_word();
        if (&queue == receive_completions_) shared_.incoming.set_asleep(word);
        if (&queue == send_completions_ &&
            shared_.state.load(std::memory_order_seq_cst) == QueuePairState::ready)
            shared_.outgoing.set_asleep(word | (send_->unexecuted() ? kSleepsForRoom : 0));
    } while (word != queue.sleep_word());
}

void QueuePair::start(std::shared_ptr<Link> link, ChannelSender outgoing) noexcept {
    stop();
    {
        const std::lock_guard lock(mutex_);
        shared_.link = std::move(link);
        shared_.peer_number = peer_->number;
        shared_.outgoing = std::move(outgoing);
    }
    send_->bind();
    if (send_completions_->may_sleep()) shared_.outgoing.set_sleeps();
    shared_.state.store(QueuePairState::ready);
    tell_sleep(*send_completions_);
    go_on();
    // What was posted too early has had its doorbell.
    if (!core_->options().parked) execute();
}

void QueuePair::reset() {
    if (core_->inherited()) return;
    ChannelReceiver fresh(core_->options().ring_bytes, receive_completions_->may_sleep());
    detach();
    stop();
    forget_peer(std::move(fresh));
    send_->reset();
    receive_->reset();
    memory_->clear();
    if (strict_) strict_->reset();
    go_on();
    core_->count_invalidation();
    attach();
}

// Under both gates, detached.
void QueuePair::forget_peer(ChannelReceiver fresh) noexcept {
    const std::lock_guard lock(mutex_);
    shared_.incoming.set_state(ReceiverState::closed);
    shared_.wake_peer();
    shared_.woken_receiver = shared_.woken_sender = 0;
    shared_.state.store(QueuePairState::reset, std::memory_order_release);
    shared_.incoming = std::move(fresh);
    shared_.outgoing = {};
    shared_.link = nullptr;
    shared_.failure.clear();
    peer_.reset();
    claimed_by_peer_ = false;
}

void QueuePair::fail() noexcept {
    if (core_->inherited()) return;
    {
        const std::lock_guard lock(mutex_);
        if (shared_.is(QueuePairState::reset)) return;
        shared_.enter_error();
    }
    execute();
}

bool QueuePair::peer_lost() const noexcept {
    const std::lock_guard lock(mutex_);
    return shared_.peer_lost();
}

std::uint64_t QueuePair::receiver_not_ready_count() const noexcept {
    const std::lock_guard lock(mutex_);
    return shared_.outgoing ? shared_.outgoing.not_ready() : 0;
}

// In a forked child the queues are a private copy: nothing is executed, everything is flushed.
bool QueuePair::dead_copy() noexcept {
    if (!core_->inherited()) [[likely]]
        return false;
    shared_.state.store(QueuePairState::error, std::memory_order_relaxed);
    return true;
}

void QueuePair::doorbell_hook(void* self, const volatile void* register_half) noexcept {
    static_cast<QueuePair*>(self)->doorbell(register_half);
}

void QueuePair::doorbell(const volatile void* register_half) noexcept {
    dead_copy();
    if (strict_ && shared_.is(QueuePairState::ready)) [[unlikely]] {
        if (strict_->accept(register_half))
            send_->ring(strict_->counter());
        else
            send_->reject();
    }
    run_send();
    if (shared_.is(QueuePairState::error)) [[unlikely]]
        run_receive();
}

void QueuePair::progress() noexcept {
    dead_copy();
    if (receive_->waiting()) run_receive();
    if (send_->waiting()) run_send();
}

void QueuePair::execute() noexcept {
    dead_copy();
    run_receive();
    run_send();
    if (shared_.is(QueuePairState::error)) run_receive();
}

void QueuePair::run_send() noexcept { run_inside(send_gate_, *send_); }
void QueuePair::run_receive() noexcept { run_inside(receive_gate_, *receive_); }

}  // namespace verbatim::softnic
