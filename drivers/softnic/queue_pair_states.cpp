// The states of a queue pair, one function each.
#include "queue_pair_states.hpp"

#include <new>

#include "ports/captured/captured_port.hpp"
#include "ports/roce_port.hpp"
#include "ports/tcp_port.hpp"
#include "queue_pair.hpp"

namespace verbatim::softnic {
namespace {

// Of the engine thread of streams and packets.
// What that has done is said now: the next turn may be late.
void drive(void* context) noexcept {
    auto& turns = *static_cast<QueuePairTurns*>(context);
    QueuePairConnection& connection = turns.engines().shared().connection;
    if (connection.stream.load(std::memory_order_acquire) == nullptr) return;
    turns.attention().heat();
    turns.execute(QueuePairTurns::Looker::engine_thread);
    connection.wake_peer();
}

// Null: there is no file, or no memory, and nothing is captured.
std::unique_ptr<Port> captured(CaptureFile* file, Port& port, std::unique_ptr<Port>& owned,
                               const CapturedEnds& ends) noexcept {
    if (file == nullptr) return nullptr;
    return std::unique_ptr<Port>(new (std::nothrow)
                                     CapturedPort(port, std::move(owned), *file, ends));
}

void bind_shm(QueuePairEngines& engines, CaptureFile* file, std::uint32_t number) noexcept {
    ShmPort& port = engines.requester().bind(nullptr);
    const QueuePairShared& shared = engines.shared();
    if (!shared.traits.reliable() || shared.traits.datagrams() || shared.traits.names_queues)
        return;
    const std::array<std::uint8_t, 16> here = loopback_address();
    std::unique_ptr<Port> none;
    auto both = captured(file, port, none, {here, here, number, shared.connection.peer_number});
    if (both != nullptr) (void)engines.requester().bind(std::move(both));
}

std::unique_ptr<Port> port_of(const StreamSetup::Meeting& meeting, CaptureFile* file,
                              const CapturedEnds& ends) {
    if (meeting.flow != nullptr) return std::make_unique<RocePort>(*meeting.peer, *meeting.flow);
    std::unique_ptr<Port> port = std::make_unique<TcpPort>(*meeting.peer, *meeting.stream);
    std::unique_ptr<Port> both = captured(file, *port, port, ends);
    return both != nullptr ? std::move(both) : std::move(port);
}

}  // namespace

void QueuePairStates::open() {
    turns_.send_completions().add_writer(queue_pair_);
    turns_.receive_completions().add_writer(queue_pair_);
    const auto held = queue_pair_.target().hold();
    attach();
}

void QueuePairStates::abandon() noexcept {
    const auto held = queue_pair_.target().hold();
    detach();
    write_no_more();
}

void QueuePairStates::write_no_more() noexcept {
    turns_.send_completions().remove_writer(queue_pair_);
    turns_.receive_completions().remove_writer(queue_pair_);
    queue_pair_.target().write_no_more();
}

// Under queue_pair_.target().hold(), as the next.
void QueuePairStates::attach() {
    turns_.attach();
    queue_pair_.target().join();
}

void QueuePairStates::detach() noexcept {
    queue_pair_.setup().streams().unwatch();
    queue_pair_.setup().datagrams().close();
    QueuePairAttention& attention = turns_.attention();
    attention.close();
    if (shared().connection.incoming) {
        Leaving done;
        attention.listen_no_more(shared().connection.incoming, done);
    }
    if (shared().traits.datagrams()) queue_pair_.sources().close();
    attention.leave_lists();
    queue_pair_.target().leave();
}

void QueuePairStates::close() noexcept {
    turns_.absence().close();
    const auto held = queue_pair_.target().hold();
    detach();
    engines().stop();
    engines().responder().give_back();
    engines().requester().datagrams().forget_flows();
    queue_pair_.setup().datagrams().forget();
    engines().leave_gates();
    shared().access->receive_no_more();
    write_no_more();
    shared().connection.incoming.set_state(ReceiverState::closed);
    shared().sources.set_state(ReceiverState::closed);
    shared().connection.wake_peer();
    if (shared().connection.sender != nullptr) shared().connection.sender->ring_bell();
    queue_pair_.setup().streams().forget();
    queue_pair_.setup().forget_ring();
}

void QueuePairStates::reset() {
    if (core_.inherited()) return;
    turns_.absence().close();
    std::shared_ptr<AccessWord> ring;
    {
        const auto held = queue_pair_.target().hold();
        queue_pair_.setup().refuse_callers(true);
        detach();
        engines().stop();
        ring = queue_pair_.setup().forget_peer();
        engines().requester().datagrams().forget_flows();
        queue_pair_.setup().datagrams().forget();
        engines().reset();
        engines().leave_gates();
        core_.count_invalidation();
        try {
            attach();
        } catch (...) {
            end_reset(ring);
            throw;
        }
    }
    turns_.absence().open();
    end_reset(ring);
}

void QueuePairStates::end_reset(const std::shared_ptr<AccessWord>& ring) noexcept {
    queue_pair_.setup().refuse_callers(false);
    // The peer's requester may be in the middle of a copy.
    if (ring != nullptr) shared().access->withdraw(ring);
}

void QueuePairStates::fail() noexcept {
    if (core_.inherited()) return;
    {
        const auto held = queue_pair_.setup().lock();
        if (shared().is(QueuePairState::reset)) return;
        if (shared().traits.follows_verbs && !shared().is(QueuePairState::error))
            shared().failure.first_syndrome = mlx5::Syndrome::flushed;
        shared().enter_error();
    }
    turns_.execute();
}

// Programs look at the first completion, which is to say what is wrong: no receive is flushed
// before the requests are.
void QueuePairStates::give_up() noexcept {
    engines().stop();
    {
        const auto held = queue_pair_.setup().lock();
        if (!shared().is(QueuePairState::error)) {
            shared().failure.first_syndrome = mlx5::Syndrome::retry_exceeded;
            shared().enter_error();
        }
    }
    turns_.run_stopped_requester();
    engines().leave_gates();
    turns_.execute();
}

void QueuePairStates::initialize() noexcept {
    shared().state.store(QueuePairState::initialized, std::memory_order_release);
}

void QueuePairStates::receive_from(const QueuePairPeer& peer) {
    const auto held = queue_pair_.target().hold();
    if (!shared().traits.datagrams()) queue_pair_.setup().open_ring(peer.nonce);
    // Before the peer is given the ring: its first request may name one, and touch memory there.
    queue_pair_.target().name_queues();
    queue_pair_.setup().accept(peer);
    turns_.attention().heat();
}

void QueuePairStates::start(std::shared_ptr<Link> link, ChannelSender outgoing,
                            std::shared_ptr<const WakeFile> waker) noexcept {
    engines().stop();
    queue_pair_.setup().bind(std::move(link), std::move(outgoing), std::move(waker));
    QueuePairConnection& connection = shared().connection;
    connection.outgoing.set_attached();
    bind_shm(engines(), queue_pair_.setup().streams().capture(), queue_pair_.view().number);
    if (turns_.send_completions().may_sleep()) connection.outgoing.set_sleeps();
    // A message may have failed already where receiving began before.
    if (!shared().is(QueuePairState::error)) shared().state.store(QueuePairState::ready);
    turns_.tell_sleep(turns_.send_completions());
    turns_.attention().tell_rings(!turns_.attention().hot());
    engines().leave_gates();
    turns_.attention().heat();
    // What was received before could not be told to its sender; what was posted waits.
    connection.link->ring_bell();
    core_.ring_own_bell();
    // What was posted too early has had its doorbell.
    if (!core_.options().parked) turns_.execute();
}

void QueuePairStates::start(PortKind wire, const QueuePairAddress& own,
                            const QueuePairAddress& peer, Instant deadline) {
    StreamSetup& streams = queue_pair_.setup().streams();
    const bool parked = core_.options().parked;
    auto meeting = streams.meet(wire, own, peer, deadline, {parked ? nullptr : drive, &turns_});
    auto port = port_of(meeting, streams.capture(),
                        {own.stream_address, peer.stream_address, own.number, peer.number});
    engines().stop();
    {
        const auto held = queue_pair_.setup().lock();
        streams.bind(std::move(meeting.peer));
    }
    (void)engines().requester().bind(std::move(port));
    shared().state.store(QueuePairState::ready);
    engines().leave_gates();
    turns_.attention().heat();
    if (!parked) turns_.execute();
}

void QueuePairStates::receive_packets(FlowOptions options) {
    options.own.queue_pair = queue_pair_.view().number;
    receive_from({{}, options.peer.queue_pair});
    StreamSetup& streams = queue_pair_.setup().streams();
    auto meeting = streams.meet_foreign(options, {drive, &turns_});
    flow_ = meeting.flow;
    engines().stop();
    {
        const auto held = queue_pair_.setup().lock();
        streams.bind(std::move(meeting.peer));
    }
    engines().leave_gates();
    turns_.attention().heat();
    core_.ring_own_bell();
}

void QueuePairStates::send_packets(const FlowStart& start) {
    PeerStream* const peer = shared().connection.stream.load();
    if (peer == nullptr) return;
    flow_->begin_sending(start);
    auto port = std::make_unique<RocePort>(*peer, *flow_);
    engines().stop();
    (void)engines().requester().bind(std::move(port));
    if (!shared().is(QueuePairState::error)) shared().state.store(QueuePairState::ready);
    engines().leave_gates();
    turns_.attention().heat();
    core_.ring_own_bell();
    turns_.execute();
}

void QueuePairStates::acknowledge_to(std::shared_ptr<Link> link) noexcept {
    engines().receive_gate().enter_waiting();
    if (shared().receives()) shared().connection.sender = link;
    engines().receive_gate().leave_for_good();
    link->ring_bell();  // of what was received before
}

void QueuePairStates::pause_sending(bool report) noexcept {
    shared().limits.report_drained.store(report);
    shared().limits.paused.store(true);
    turns_.run_send();
}

void QueuePairStates::resume_sending() noexcept {
    shared().limits.report_drained.store(false);
    if (shared().limits.paused.exchange(false)) turns_.run_send();
}

void QueuePairStates::send_datagrams(std::uint32_t first_sequence) noexcept {
    {
        const auto held = queue_pair_.setup().lock();
        if (shared().is(QueuePairState::error)) return;
        if (shared().is(QueuePairState::ready_to_receive))
            queue_pair_.setup().datagrams().begin_sending(first_sequence);
        shared().state.store(QueuePairState::ready, std::memory_order_release);
    }
    turns_.execute();
}

void QueuePairStates::add_flow(std::uint32_t number, std::shared_ptr<Link> link,
                               ChannelSender ring) noexcept {
    engines().send_gate().enter_waiting();
    engines().requester().datagrams().add_flow(number, std::move(link), std::move(ring));
    engines().send_gate().leave_for_good();
    turns_.execute();
}

void QueuePairStates::refuse_flow(std::uint32_t number, bool absent) noexcept {
    engines().send_gate().enter_waiting();
    engines().requester().datagrams().refuse_flow(number, absent);
    engines().send_gate().leave_for_good();
    turns_.execute();
}

}  // namespace verbatim::softnic
