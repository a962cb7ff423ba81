// Turns inside the gates: from doorbells, from polls, and to flush.
#include "queue_pair_turns.hpp"

#include "device.hpp"
#include "host/fault_guard.hpp"
#include "queue_pair.hpp"
#include "queue_pair/peer_waking.hpp"

namespace verbatim::softnic {
namespace {

// How often a thread goes round for others before it leaves the rest to the next doorbell or poll.
constexpr int kMaxRounds = 16;

// How often in a row a queue pair is looked at in vain before it cools: where few are hot, for some
// tens of microseconds of polls, so that the next message of a conversation needs no mark; where
// many are, soon.
constexpr std::uint32_t kFew = 16, kLongPatience = 1024, kShortPatience = 16;

// A stream's peer is farther away, and what comes while its queue pair is cold waits until the
// engine thread has a core: so many times as patient.
constexpr std::uint32_t kStreamPatience = 64;

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

// In a forked child the queues are a private copy: nothing is executed, everything is flushed.
void mark_dead_copy(const DeviceCore& core, QueuePairShared& shared) noexcept {
    if (core.inherited()) [[unlikely]]
        shared.state.store(QueuePairState::error, std::memory_order_relaxed);
}

// One look, and the work that came with it. Apart: inlined, it makes a message 0.1 us slower.
template <class Work>
[[gnu::noinline]] Wire::Found look(PeerStream& stream, bool polls, const Work& work) noexcept {
    const std::uint32_t answers = stream.wire().answers();
    const Wire::Found found = polls ? stream.poll() : stream.drive();
    if (found > Wire::Found::nothing) work(stream.wire().answers() != answers);
    return found;
}

}  // namespace

void ProgressList::progress() noexcept {
    const bool few = looked_at_.load(std::memory_order_relaxed) <= kFew;
    const std::uint32_t patience = few ? kLongPatience : kShortPatience;
    walk([patience](QueuePair& queue_pair) {
        queue_pair.turns().progress(QueuePairTurns::Look::quick, patience);
    });
}

// One whose mark was taken. Its work is done at once, whatever lists it is in: their threads may
// have looked for the mark in vain meanwhile, and sleep.
void ProgressList::heat(QueuePair& queue_pair) noexcept {
    QueuePairTurns& turns = queue_pair.turns();
    turns.attention().heat();
    turns.progress(QueuePairTurns::Look::whole, kLongPatience);
    turns.ring_for_rest();
}

QueuePairTurns::QueuePairTurns(DeviceCore& core, QueuePair& owner, QueuePairParts& parts) noexcept
    : core_(core),
      send_completions_(parts.send_completions),
      receive_completions_(parts.receive_completions),
      progress_(parts.progress),
      engines_(core, parts),
      attention_(owner, engines_.shared()),
      absence_(core.absent_poller(),
               {[](void* self) noexcept {
                    static_cast<QueuePairTurns*>(self)->execute(Looker::engine_thread);
                },
                this}) {}

// The lists that drive it, each once.
void QueuePairTurns::attach() {
    std::vector<ProgressList*> lists{&send_completions_->list()};
    if (receive_completions_ != send_completions_) lists.push_back(&receive_completions_->list());
    if (progress_ != nullptr) lists.push_back(progress_);
    attention_.attach(lists);
}

void QueuePairTurns::ring_for_rest() const noexcept {
    if (engines_.must_return() != QueuePairEngines::Return::never) core_.ring_own_bell();
}

mlx5::DoorbellHook QueuePairTurns::hook() noexcept {
    const auto call = [](void* self, const volatile void* register_half) noexcept {
        auto& turns = *static_cast<QueuePairTurns*>(self);
        mark_dead_copy(turns.core_, turns.engines_.shared());
        StrictDoorbell* const strict = turns.engines_.strict();
        if (strict != nullptr && turns.engines_.shared().is(QueuePairState::ready)) [[unlikely]] {
            PostedRequests& posted = turns.engines_.requester().posted();
            strict->accept(register_half) ? posted.ring(strict->counter()) : posted.reject();
        }
        turns.posted();
    };
    return {call, this};
}

void QueuePairTurns::posted() noexcept {
    run_send();
    absence_.posted();
    if (engines_.shared().is(QueuePairState::error)) [[unlikely]]
        run_receive();
}

void QueuePairTurns::progress(Look look, std::uint32_t patience) noexcept {
    mark_dead_copy(core_, engines_.shared());
    const Relayed relayed = relay(Looker::poller);
    if (relayed == Relayed::worked) return attention_.found_work();
    DatagramWire* const wire = engines_.shared().wire.load(std::memory_order_acquire);
    if (wire != nullptr) [[unlikely]]
        wire->look();
    const bool relays = relayed != Relayed::no_stream || wire != nullptr;
    if ((look == Look::whole || relayed != Relayed::nothing) && work()) {
        if (relays) engines_.shared().connection.settle();
        return attention_.found_work();
    }
    if (attention_.weary(relays ? kStreamPatience * patience : patience)) [[unlikely]]
        cool();
}

// Where frames came without an answer, the requester has nothing to do but to count the time of a
// message without a receive, and to try again what waits for a time or a key.
bool QueuePairTurns::work(Due due) noexcept {
    const bool received = engines_.responder().waiting();
    if (received) run_receive();
    const Requester& requester = engines_.requester();
    const bool sends = (due == Due::all || engines_.message_waits() || requester.unexecuted()) &&
                       requester.waiting();
    if (sends) run_send(), absence_.polled();
    return received || sends;
}

// As long as more may have come: the responder makes room for it. A poller that found all returns,
// as its program may have an answer; the next poll looks again.
QueuePairTurns::Relayed QueuePairTurns::relay(Looker looker) noexcept {
    PeerStream* const stream = engines_.shared().connection.stream.load(std::memory_order_acquire);
    if (stream == nullptr) [[likely]]
        return Relayed::no_stream;
    auto found = Wire::Found::more;
    bool worked = false;
    const auto work_on = [&](bool answered) noexcept {
        worked |= work(answered ? Due::all : Due::what_came);
    };
    for (int round = 0; round != kMaxRounds && found == Wire::Found::more; ++round)
        found = look(*stream, looker == Looker::poller, work_on);
    if (stream->take_silence()) [[unlikely]]
        wake();
    if (worked && looker == Looker::poller) stream->settle();
    if (worked) return Relayed::worked;
    return found == Wire::Found::unchanged ? Relayed::nothing : Relayed::looked;
}

void QueuePairTurns::execute(Looker looker) noexcept {
    mark_dead_copy(core_, engines_.shared());
    relay(looker);
    run_receive();
    run_send();
    if (engines_.shared().is(QueuePairState::error)) run_receive();
}

void QueuePairTurns::catch_up() noexcept {
    attention_.heat();
    core_.options().parked ? core_.ring_own_bell() : execute();
}

void QueuePairTurns::run_stopped_requester() noexcept {
    Requester& requester = engines_.requester();
    engines_.shared().traits.follows_verbs ? run_and_recover(requester) : requester.run();
}

// A turn that leaves work behind heats; then one more turn finds what came before that.
template <class Engine>
void QueuePairTurns::run_inside(Gate& gate, Engine& engine) noexcept {
    if (!gate.enter()) return;
    const QueuePairShared& shared = engines_.shared();
    bool heated = false;
    for (int round = 1;; ++round) {
        shared.traits.follows_verbs ? run_and_recover(engine) : engine.run();
        if (!heated && !attention_.hot() && (engine.waiting() || shared.is(QueuePairState::error)))
            [[unlikely]] {
            attention_.heat_inside();
            heated = true;
            continue;
        }
        if (heated) [[unlikely]]
            ring_for_rest();  // what waits for a time: a look may have come before this one
        if (round >= kMaxRounds) return leave_to_others(gate);
        if (gate.leave()) return;
    }
}

// The rest is for the next look, which may be that of a thread which sleeps by now.
void QueuePairTurns::leave_to_others(Gate& gate) noexcept {
    if (gate.leave()) return;
    attention_.heat_inside();
    gate.leave_for_good();
    core_.ring_own_bell();
    if (send_completions_->may_sleep()) send_completions_->wake();
    if (receive_completions_->may_sleep()) receive_completions_->wake();
}

void QueuePairTurns::run_send() noexcept {
    run_inside(engines_.send_gate(), engines_.requester());
    send_completions_->announce();
}

// The peer's answers are received after the completions of what they answer were written.
void QueuePairTurns::admit_arrivals() noexcept {
    QueuePairShared& shared = engines_.shared();
    if (!shared.traits.orders_answers || !shared.receives()) return;
    const std::uint64_t arrived = shared.connection.incoming.arrived();
    if (engines_.send_gate().occupied() || engines_.requester().outstanding()) return run_send();
    shared.connection.admitted.store(arrived, std::memory_order_release);
}

void QueuePairTurns::run_receive() noexcept {
    admit_arrivals();
    const QueuePairTraits& traits = engines_.shared().traits;
    // A datagram is answered when it is sent; its completion is about to be written in there.
    if (traits.follows_verbs && traits.datagrams() && engines_.send_gate().occupied()) return;
    run_inside(engines_.receive_gate(), engines_.responder());
    send_completions_->announce();  // events in the same order
    receive_completions_->announce();
}

// The protocol is attention.hpp's.
void QueuePairTurns::cool() noexcept {
    Gate &sending = engines_.send_gate(), &receiving = engines_.receive_gate();
    if (!attention_.begin_cooling()) return;
    if (engines_.has_work() || !sending.try_enter()) return attention_.stay_hot();
    if (!receiving.try_enter()) {
        attention_.stay_hot();
        if (!sending.leave_or_drop()) run_send();
        return;
    }
    attention_.become_cold();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool found = engines_.has_work();
    const bool received = receiving.leave_or_drop(), sent = sending.leave_or_drop();
    // Done here: the other lists may be looked at by threads that sleep by now.
    if (found) attention_.heat();
    if (found || !received) run_receive();
    if (found || !sent) run_send();
    if (found || !received || !sent) ring_for_rest();
    if (!found) engines_.shared().connection.hand_over();
}

void QueuePairTurns::wake() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    attention_.heat();
    send_completions_->wake();
    receive_completions_->wake();
}

// As often as the queue is armed meanwhile: the last word counts.
void QueuePairTurns::tell_sleep(const CompletionQueue& queue) noexcept {
    if (!queue.may_sleep() || core_.inherited()) return;  // the words are the parent's
    QueuePairShared& shared = engines_.shared();
    QueuePairConnection& connection = shared.connection;
    std::uint32_t word = 0;
    do {
        word = queue.sleep_word();
        if (&queue == receive_completions_ && connection.has_incoming.load())
            connection.incoming.set_asleep(word);
        if (&queue == send_completions_ &&
            shared.state.load(std::memory_order_seq_cst) == QueuePairState::ready &&
            connection.stream.load(std::memory_order_acquire) == nullptr) {
            const bool for_room = engines_.requester().unexecuted();
            connection.outgoing.set_asleep(word | (for_room ? kSleepsForRoom : 0));
        }
    } while (word != queue.sleep_word());
}

}  // namespace verbatim::softnic
