// The queue pair's life: creation, connection, failure, reset; and the hooks of its data path.
#include "queue_pair.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "host/fault_guard.hpp"
#include "ports/peer_waking.hpp"
#include "shared_receive_queue.hpp"

namespace verbatim::softnic {
namespace {

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

// Memory of programs may go while it is registered.
template <class Engine>
void run_and_recover(Engine& engine) noexcept {
    const void* address = nullptr;
    if (run_guarded([&] { engine.run(); }, address)) [[likely]]
        return;
    const void* again = nullptr;
    // Queues may be gone as well; then nobody can be told anything.
    run_guarded([&] { engine.recover(address); }, again);
}

}  // namespace

QueuePairParts own_parts(const QueuePairOptions& options) {
    QueuePairParts parts;
    parts.send_completions = completion_queue(options.send_completions, "send_completions");
    parts.receive_completions =
        completion_queue(options.receive_completions, "receive_completions");
    parts.shared_receives = shared_receives(options.shared_receives);
    if (parts.shared_receives != nullptr) parts.receive_index = parts.shared_receives->number();
    parts.memory = std::make_unique<QueuePairMemory>(options, 0);
    parts.view = parts.memory->view();
    return parts;
}

QueuePair::QueuePair(std::shared_ptr<DeviceCore> core, QueuePairParts parts)
    : core_(std::move(core)),
      xrc_domain_(std::move(parts.xrc_domain)),
      send_completions_(parts.send_completions),
      receive_completions_(parts.receive_completions),
      progress_(parts.progress),
      follows_verbs_(parts.follows_verbs),
      memory_(std::move(parts.memory)),
      view_(parts.view) {
    const Options& device = core_->options();
    view_.big_endian_results = device.big_endian_results;
    shared_.domain = parts.domain;
    shared_.receive_in_entry = parts.receive_in_entry;
    shared_.result_in_entry = parts.result_in_entry;
    terms_.sleeps = receive_completions_->may_sleep();
    terms_.domain = parts.domain;
    terms_.names_queues = xrc_domain_ != nullptr;
    shared_.transport = view_.transport;
    shared_.names_queues = parts.names_queues;
    shared_.xrc_domain = xrc_domain_.get();
    shared_.flow_request = parts.flow_request;
    shared_.route = parts.route;
    shared_.max_datagram = parts.max_datagram;
    shared_.events = parts.events;
    shared_.send_index = parts.send_index;
    shared_.receive_index = parts.receive_index;
    shared_.ends_with_peer = !parts.follows_verbs;
    shared_.orders_answers = parts.follows_verbs && shared_.reliable();
    shared_.number = view_.number = core_->add_queue_pair(*this);
    try {
        shared_.access.emplace(core_->keys().accesses(), shared_.number);
        if (!device.parked) view_.doorbell_hook = {doorbell_hook, this};
        if (device.strict_doorbells) strict_.emplace(view(), shared_.failure);
        KeyTable& keys = core_->keys();
        send_.emplace(
            view(), send_completions_->ring(), keys, shared_,
            RequesterOptions{.strict_doorbells = device.strict_doorbells && !device.parked,
                             .faults = core_->next_fault_injector()});
        receive_.emplace(view(), parts.shared_receives, receive_completions_->ring(), keys,
                         shared_);
        send_completions_->add_writer(*this);
        receive_completions_->add_writer(*this);
        const auto domain_held = hold_domain();
        attach();
        made_.store(true, std::memory_order_release);
    } catch (...) {
        const auto domain_held = hold_domain();
        detach();
        send_completions_->remove_writer(*this);
        receive_completions_->remove_writer(*this);
        if (xrc_domain_ != nullptr) xrc_domain_->write_no_more(*this);
        core_->remove_queue_pair(shared_.number);
        if (shared_.access) shared_.access->remove();
        throw;
    }
}

// After it nothing that comes through this queue pair touches memory, but for a peer that is
// stopped in the middle: that one keeps its word in the registry.
QueuePair::~QueuePair() {
    if (core_->inherited()) return;
    core_->remove_queue_pair(shared_.number);
    close();
    shared_.access->remove();
}

void QueuePair::close() noexcept {
    const auto domain_held = hold_domain();
    detach();
    stop();
    receive_->give_back();
    send_->datagrams().forget_flows();
    leave_gates();
    shared_.access->receive_no_more();
    send_completions_->remove_writer(*this);
    receive_completions_->remove_writer(*this);
    if (xrc_domain_ != nullptr) xrc_domain_->write_no_more(*this);
    shared_.incoming.set_state(ReceiverState::closed);
    shared_.sources.set_state(ReceiverState::closed);
    shared_.wake_peer();
    if (shared_.sender != nullptr) shared_.sender->ring_bell();
    forget_ring();
}

void QueuePair::attach() {
    listed_.reserve(Attention::kLists);
    for (ProgressList* const list : lists()) listed_.push_back({list, list->attach(*this)});
    attention_.set_lists(listed_);
    attention_.finish_hot();
    if (xrc_domain_ != nullptr) xrc_domain_->join(*this);
}

void QueuePair::detach() {
    attention_.close();
    if (shared_.incoming) {
        Leaving done;
        listen_no_more(shared_.incoming, done);
    }
    if (shared_.datagrams()) {
        // Outside the gate, so that no control thread waits for a poll.
        receive_gate_.enter_waiting();
        shared_.sources.freeze();
        receive_gate_.leave_for_good();
        shared_.sources.for_each([this](DatagramSources::Source& source) {
            listen_no_more(source.ring, source.leaving);
        });
    }
    for (const Attention::Listed& listed : listed_) listed.list->detach(listed.place);
    attention_.set_lists({});
    // A round of one list could set the bit in another one until here.
    for (const Attention::Listed& listed : listed_) listed.list->give_back(listed.place);
    listed_.clear();
    if (xrc_domain_ != nullptr) xrc_domain_->leave(*this);
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

ChannelPlace QueuePair::open_for(const LinkPeer& asking, std::uint32_t from) {
    const Nonce& peer = asking.session.nonce;
    // A number that was guessed, or was a former queue pair's.
    if (!made_.load(std::memory_order_acquire))
        throw Error(Errc::connection_refused, fmt::format("queue pair {}", shared_.number),
                    "it is being made");
    if (shared_.datagrams()) return open_source(asking, from);
    const std::lock_guard lock(mutex_);
    if (closed_)
        throw Error(Errc::connection_refused, fmt::format("queue pair {}", shared_.number),
                    "it is being reset");
    if (shared_.is(QueuePairState::error))
        throw Error(Errc::peer_lost, fmt::format("queue pair {}", shared_.number),
                    "it is in the error state");
    if (follows_verbs_ && peer_ != Peer{peer, from})
        throw Error(Errc::connection_refused, fmt::format("queue pair {}", shared_.number),
                    "it does not receive from that queue pair (yet)");
    claim({peer, from});
    make_ring(peer);
    claimed_by_peer_ = true;
    shared_.access->set_writer(asking.process);
    return shared_.incoming.lend(asking.process);
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
        {
            const std::lock_guard lock(mutex_);
            make_ring(peer.nonce);
        }
        std::shared_ptr<Link> link = core_->link_to(peer, deadline);
        ChannelSender outgoing(link->open_channel(shared_.number, peer.number, deadline));
        start(std::move(link), std::move(outgoing));
    } catch (...) {
        if (close_unclaimed()) drop_ring();
        throw;
    }
}

void QueuePair::stop() noexcept {
    send_gate_.enter_waiting();
    receive_gate_.enter_waiting();
}

bool QueuePair::go_on() noexcept {
    const bool received = receive_gate_.leave_or_drop(), sent = send_gate_.leave_or_drop();
    return received && sent;
}

void QueuePair::catch_up() noexcept {
    heat();
    core_->options().parked ? core_->ring_own_bell() : execute();
}

// Only what the caller does next runs the engines.
void QueuePair::leave_gates() noexcept {
    receive_gate_.leave_for_good();
    send_gate_.leave_for_good();
}

void QueuePair::wake() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    heat();
    send_completions_->wake();
    receive_completions_->wake();
}

// As often as the queue is armed meanwhile: the last word counts.
void QueuePair::tell_sleep(const CompletionQueue& queue) noexcept {
    if (!queue.may_sleep() || core_->inherited()) return;  // the words are the parent's
    std::uint32_t word = 0;
    do {
        word = queue.sleep_word();
        if (&queue == receive_completions_ && has_ring_.load()) shared_.incoming.set_asleep(word);
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
        shared_.sender = shared_.link;
        shared_.peer_number = peer_->number;
        shared_.outgoing = std::move(outgoing);
    }
    shared_.outgoing.set_attached();
    send_->bind();
    if (send_completions_->may_sleep()) shared_.outgoing.set_sleeps();
    // A message may have failed already where receiving began before.
    if (!shared_.is(QueuePairState::error)) shared_.state.store(QueuePairState::ready);
    tell_sleep(*send_completions_);
    set_listens(!attention_.hot());
    leave_gates();
    heat();
    // What was received before could not be told to its sender; what was posted waits.
    shared_.link->ring_bell();
    core_->ring_own_bell();
    // What was posted too early has had its doorbell.
    if (!core_->options().parked) execute();
}

void QueuePair::reset() {
    if (core_->inherited()) return;
    std::shared_ptr<AccessWord> ring;
    {
        const auto domain_held = hold_domain();
        refuse_callers(true);
        detach();
        stop();
        ring = forget_peer();
        send_->reset();
        receive_->reset();
        if (memory_ != nullptr) memory_->clear();
        if (strict_) strict_->reset();
        leave_gates();
        core_->count_invalidation();
        try {
            attach();
        } catch (...) {
            end_reset(ring);
            throw;
        }
    }
    end_reset(ring);
}

void QueuePair::end_reset(const std::shared_ptr<AccessWord>& ring) noexcept {
    refuse_callers(false);
    // The peer's requester may be in the middle of a copy.
    if (ring != nullptr) shared_.access->withdraw(ring);
}

// Under both gates, detached. Returns the word of the ring that there was, to be withdrawn.
std::shared_ptr<AccessWord> QueuePair::forget_peer() noexcept {
    const std::lock_guard lock(mutex_);
    shared_.incoming.set_state(ReceiverState::closed);
    shared_.wake_peer();
    if (shared_.sender != nullptr) shared_.sender->ring_bell();
    shared_.woken_receiver = shared_.woken_sender = 0;
    shared_.state.store(QueuePairState::reset, std::memory_order_release);
    auto ring = shared_.access->exchange_ring(nullptr);
    forget_ring();
    shared_.admitted.store(0, std::memory_order_relaxed);
    shared_.paused.store(false);
    shared_.report_drained.store(false);
    shared_.outgoing = {};
    shared_.link = nullptr;
    shared_.sender = nullptr;
    send_->datagrams().forget_flows();
    shared_.sources.clear();
    shared_.failure.clear();
    shared_.first_syndrome = kNoSyndrome;
    peer_.reset();
    claimed_by_peer_ = false;
    return ring;
}

void QueuePair::fail() noexcept {
    if (core_->inherited()) return;
    {
        const std::lock_guard lock(mutex_);
        if (shared_.is(QueuePairState::reset)) return;
        if (follows_verbs_ && !shared_.is(QueuePairState::error))
            shared_.first_syndrome = mlx5::Syndrome::flushed;
        shared_.enter_error();
    }
    execute();
}

// Programs look at the first completion, which is to say what is wrong: no receive is flushed
// before the requests are.
void QueuePair::give_up() noexcept {
    stop();
    {
        const std::lock_guard lock(mutex_);
        if (!shared_.is(QueuePairState::error)) {
            shared_.first_syndrome = mlx5::Syndrome::retry_exceeded;
            shared_.enter_error();
        }
    }
    follows_verbs_ ? run_and_recover(*send_) : send_->run();
    leave_gates();
    execute();
}

bool QueuePair::peer_lost() const noexcept {
    const std::lock_guard lock(mutex_);
    return shared_.peer_lost();
}

QueuePair::Return QueuePair::must_return() const noexcept {
    const QueuePairState now = state();
    if (receive_->waiting()) return Return::soon;
    if (now == QueuePairState::error) return send_->waiting() ? Return::soon : Return::late;
    if (now != QueuePairState::ready) return Return::never;
    return send_->unexecuted() || send_->owes_wake() || send_->counts_time() ? Return::soon
                                                                             : Return::never;
}

std::uint64_t QueuePair::receiver_not_ready_count() const noexcept {
    const std::lock_guard lock(mutex_);
    return shared_.outgoing ? shared_.outgoing.not_ready() : 0;
}

std::optional<QueuePairFacts> QueuePair::facts() const {
    if (!made_.load(std::memory_order_acquire)) return std::nullopt;
    QueuePairFacts facts;
    facts.number = shared_.number;
    facts.transport = shared_.transport;
    if (shared_.names_queues) facts.xrc = XrcSide::initiator;
    if (xrc_domain_ != nullptr) facts.xrc = XrcSide::target;
    facts.state = state();
    facts.requests = send_->counts().requests.load(std::memory_order_relaxed);
    facts.messages = receive_->messages();
    facts.bytes_sent = send_->counts().bytes_sent.load(std::memory_order_relaxed);
    facts.bytes_received =
        receive_->bytes() + send_->counts().bytes_fetched.load(std::memory_order_relaxed);
    facts.not_ready = receiver_not_ready_count();
    for (std::size_t i = 0; i < kFaultActions; ++i)
        facts.faults[i] = faults_injected(static_cast<FaultAction>(i));
    const std::lock_guard lock(mutex_);
    if (peer_ && !shared_.datagrams()) facts.peer = peer_->number;
    return facts;
}

std::uint64_t QueuePair::faults_injected(FaultAction action) const noexcept {
    const FaultInjector* const faults = send_->faults().injector();
    return faults == nullptr ? 0 : faults->counted(action);
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
            send_->posted().ring(strict_->counter());
        else
            send_->posted().reject();
    }
    posted();
}

void QueuePair::posted() noexcept {
    run_send();
    if (shared_.is(QueuePairState::error)) [[unlikely]]
        run_receive();
}

void QueuePair::progress(std::uint32_t patience) noexcept {
    dead_copy();
    const bool received = receive_->waiting();
    if (received) run_receive();
    const bool sends = send_->waiting();
    if (sends) run_send();
    if (received || sends) return attention_.found_work();
    if (attention_.weary(patience)) [[unlikely]]
        cool();
}

void QueuePair::execute() noexcept {
    dead_copy();
    run_receive();
    run_send();
    if (shared_.is(QueuePairState::error)) run_receive();
}

// A turn that leaves work behind heats; then one more turn finds what came before that.
template <class Engine>
void QueuePair::run_inside(Gate& gate, Engine& engine) noexcept {
    if (!gate.enter()) return;
    bool heated = false;
    for (int round = 1;; ++round) {
        follows_verbs_ ? run_and_recover(engine) : engine.run();
        if (!heated && !attention_.hot() && (engine.waiting() || shared_.is(QueuePairState::error)))
            [[unlikely]] {
            heat_inside();
            heated = true;
            continue;
        }
        if (heated) [[unlikely]]
            ring_for_rest();  // what waits for a time: a look may have come before this one
        if (round >= kMaxRounds) return leave_to_others(gate);
        if (gate.leave()) return;
    }
}

void QueuePair::run_send() noexcept {
    run_inside(send_gate_, *send_);
    send_completions_->announce();
}

// The peer's answers are received after the completions of what they answer were written.
void QueuePair::admit_arrivals() noexcept {
    if (!shared_.orders_answers || !shared_.receives()) return;
    const std::uint64_t arrived = shared_.incoming.arrived();
    if (send_gate_.occupied() || send_->outstanding()) return run_send();
    shared_.admitted.store(arrived, std::memory_order_release);
}

void QueuePair::run_receive() noexcept {
    admit_arrivals();
    // A datagram is answered when it is sent; its completion is about to be written in there.
    if (follows_verbs_ && shared_.datagrams() && send_gate_.occupied()) return;
    run_inside(receive_gate_, *receive_);
    send_completions_->announce();  // events in the same order
    receive_completions_->announce();
}

}  // namespace verbatim::softnic
