// Execution of send queue entries.
#include "requester.hpp"

#include <algorithm>
#include <cstring>

#include <verbatim/mlx5/work_request.hpp>

#include "quick_requests.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

// Of the fence modes, those that wait for reads and atomics.
constexpr std::uint8_t kWaitsForResults = 0xc0;

}  // namespace

Requester::Requester(const mlx5::QueuePairView& view, CompletionRing& completions, KeyTable& keys,
                     QueuePairShared& shared, RequesterOptions options)
    : view_(view),
      shared_(&shared),
      port_(shared, options.port),
      elements_(keys.view(), shared.failure.text, shared.traits.domain, *shared.access),
      order_(view, completions, shared, port_, elements_),
      faults_(std::move(options.faults), shared),
      executor_(keys, shared, port_, elements_, order_, faults_),
      posted_(view.doorbell_record + mlx5::kRecordSend, options.strict_doorbells) {}

void Requester::reset() noexcept {
    port_.drop();
    port_.shm().reset();
    executor_.reset();
    order_.reset();
    faults_.reset();
    posted_.reset();
    head_.store(0, std::memory_order_relaxed);
}

void Requester::run() noexcept {
    const QueuePairState state = shared_->state.load(std::memory_order_acquire);
    if (state == QueuePairState::ready) [[likely]] {
        // Asked before the acknowledgements are read: what a silent peer has acknowledged is then
        // final.
        const bool silent = this->silent();
        if (!shared_->traits.datagrams()) port_.begin_turn();
        if (outstanding()) harvest(silent);
        if (shared_->limits.paused.load(std::memory_order_acquire)) [[unlikely]]
            drain(silent);
        else
            execute_posted(silent);
        if (!shared_->traits.datagrams()) port_.end_turn();
        if (!shared_->is(QueuePairState::error)) return;
    } else if (state != QueuePairState::error) {
        return;  // requests posted too early wait for connect()
    }
    flush();
}

// Where a fault policy strikes, a copy by the program would escape it.
RemoteMemory* Requester::memory_now() noexcept {
    const bool at_once = shared_->is(QueuePairState::ready) && port_.is_shm() && !faults_.any() &&
                         !order_.stopped() && !unexecuted() && !posted_.rejected() &&
                         !shared_->limits.paused.load(std::memory_order_acquire) && !silent() &&
                         shared_->connection.outgoing.allows(Access::remote_write);
    return at_once ? port_.shm().memory_now() : nullptr;
}

// What arrived before the acknowledgements were read may be received after.
void Requester::harvest(bool silent) noexcept {
    if (!shared_->traits.orders_answers) return order_.harvest(silent);
    const std::uint64_t arrived = shared_->connection.incoming.arrived();
    order_.harvest(silent);
    shared_->connection.admitted.store(arrived, std::memory_order_release);
}

// What is begun is brought to its end.
void Requester::drain(bool silent) noexcept {
    if (port_.begun()) execute_next(posted_.limit(), silent);
    if (outstanding()) port_.await_last();
    if (!outstanding() && !port_.begun() && shared_->limits.report_drained.exchange(false))
        shared_->failure.report(QueuePairEvent::drained);
}

void Requester::execute_posted(bool silent) noexcept {
    const std::uint16_t end = posted_.limit();
    const bool quick = !silent && !faults_.any() && !shared_->traits.datagrams() &&
                       port_.is_shm() && !shared_->traits.names_queues;
    const auto may = quick ? QuickRequests::what_peer_takes(*shared_) : QuickRequests::Taken{};
    QuickRequests requests({view_, port_.shm(), elements_, order_, counts_, head_});
    while (!order_.stopped() && executed() != end) {
        if (requests.execute(end, may)) [[likely]]
            continue;
        if (!execute_next(end, silent)) return;
    }
    if (posted_.rejected() && !order_.stopped()) [[unlikely]]
        execute_rejected(end);
}

// Without a record of it there may be no request to skip.
void Requester::execute_rejected(std::uint16_t end) noexcept {
    const auto control = WqeReader(view_, end).read<mlx5::ControlSegment>(0);
    const std::uint32_t blocks = std::max(mlx5::blocks_for_units(mlx5::units_of(control)), 1U);
    const auto recorded = static_cast<std::uint16_t>(posted_.recorded() - end);
    fail_next(Syndrome::local_queue_pair, std::min<std::uint32_t>(blocks, recorded));
    posted_.forget_rejection();
}

// False: nothing more can be executed now.
bool Requester::execute_next(std::uint16_t end, bool silent) noexcept {
    SendRequest request(view_, executed());
    const std::uint32_t blocks = mlx5::blocks_for_units(request.units());
    const auto posted = static_cast<std::uint16_t>(end - request.result.index);
    if (blocks == 0 || blocks > posted || posted > view_.send_blocks) [[unlikely]] {
        shared_->failure.text.set(
            "send queue entry {} has {} blocks, the doorbell record announces {} of a ring of {}",
            request.result.index, blocks, posted, view_.send_blocks);
        return fail_next(Syndrome::local_queue_pair, std::max(blocks, 1U));
    }
    if (order_.full()) {
        port_.await_last();
        return false;
    }
    // Results of atomic operations may be on their way still.
    if ((request.control.fence_completion_event & kWaitsForResults) != 0 && order_.awaits_results())
        return false;
    const PortAnswer answer =
        silent          ? refusal(faults_.peer_lost() ? Syndrome::retry_exceeded : port_.silence())
        : faults_.any() ? faults_.strike(request, [&] { return executor_.execute(request); })
                        : executor_.execute(request);
    if (answer.outcome == PortOutcome::waits) return false;
    const bool well = settle(request, answer);
    advance(static_cast<std::uint16_t>(request.result.index + blocks));
    order_.finish(request.result);
    return well;
}

// False: the request failed.
bool Requester::settle(SendRequest& request, const PortAnswer& answer) noexcept {
    const Syndrome syndrome = answer.syndrome;
    if (answer.outcome == PortOutcome::accepted)
        request.result.ticket = answer.ticket;
    else
        request.result.result_unit = 0;
    // Without reliability nobody learns what the peer refused.
    const bool unnoticed = !shared_->traits.reliable() && syndrome >= Syndrome::remote_invalid;
    if (answer.outcome == PortOutcome::refused && !unnoticed) {
        if (syndrome == Syndrome::retry_exceeded)
            shared_->failure.text.set("the peer is gone or in error");
        request.result.syndrome = syndrome;
        return false;
    }
    RequestCounts::add(counts_.bytes_sent, request.sent);
    RequestCounts::add(counts_.bytes_fetched, request.result.bytes);
    return true;
}

// The entry at head fails without having been looked at.
bool Requester::fail_next(Syndrome syndrome, std::uint32_t blocks) noexcept {
    SendRequest request(view_, executed());
    request.result.syndrome = syndrome;
    advance(static_cast<std::uint16_t>(request.result.index + blocks));
    order_.finish(request.result);
    return false;
}

void Requester::advance(std::uint16_t head) noexcept {
    faults_.next_request();
    RequestCounts::add(counts_.requests, 1);
    head_.store(head, std::memory_order_relaxed);
}

// The request at the head touched memory that is not there, or the oldest one, whose result has
// come.
void Requester::recover(const void* address) noexcept {
    port_.shm().recover();
    elements_.access().recover();
    shared_->failure.text.set("memory at {} is registered and not there (any more)", address);
    if (!order_.fail_taking()) {
        const SendRequest request(view_, executed());
        const bool own = executor_.names_local(request, address);
        if (!own) port_.report_refusal(Syndrome::remote_access);
        fail_next(own ? Syndrome::local_protection : Syndrome::remote_access,
                  std::max(mlx5::blocks_for_units(request.units()), 1U));
    }
    if (shared_->is(QueuePairState::ready)) order_.harvest(silent());
    port_.end_turn();
    if (shared_->is(QueuePairState::error)) flush();
}

// Error state: every outstanding request gets its error completion, as the completion queue has
// room.
void Requester::flush() noexcept {
    const std::uint16_t end = posted_.recorded();
    posted_.ring(end);  // what strict doorbells had not let through is flushed as well
    if (!order_.flush_outstanding()) return;
    std::uint16_t head = executed();
    // A record that runs further ahead than the ring is long is nonsense; what the ring holds is
    // flushed.
    if (static_cast<std::uint16_t>(end - head) > view_.send_blocks)
        head = static_cast<std::uint16_t>(end - view_.send_blocks);
    while (head != end) {
        const SendRequest request(view_, head);
        if (!order_.flush(request.result)) break;
        const std::uint32_t blocks = std::max(mlx5::blocks_for_units(request.units()), 1U);
        head = static_cast<std::uint16_t>(
            head + std::min<std::uint32_t>(blocks, static_cast<std::uint16_t>(end - head)));
    }
    head_.store(head, std::memory_order_relaxed);
}

}  // namespace verbatim::softnic
