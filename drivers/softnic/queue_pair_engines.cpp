// Making, stopping and resetting a queue pair's engines, and what they leave to be done.
#include "queue_pair_engines.hpp"

#include "device.hpp"

namespace verbatim::softnic {

QueuePairEngines::QueuePairEngines(const DeviceCore& core, QueuePairParts& parts) noexcept
    : memory_(std::move(parts.memory)), view_(parts.view) {
    view_.big_endian_results = core.options().big_endian_results;
    QueuePairTraits& traits = shared_.traits;
    traits.domain = parts.domain;
    traits.transport = view_.transport;
    traits.names_queues = parts.names_queues;
    traits.xrc_domain = parts.xrc_domain.get();
    traits.send_index = parts.send_index;
    traits.receive_index = parts.receive_index;
    traits.receive_in_entry = parts.receive_in_entry;
    traits.result_in_entry = parts.result_in_entry;
    traits.follows_verbs = parts.follows_verbs;
    traits.orders_answers = parts.follows_verbs && traits.reliable();
    traits.max_datagram = parts.max_datagram;
    traits.flow_request = parts.flow_request;
    traits.route = parts.route;
    shared_.limits.not_ready_retries = parts.not_ready_retries;
    shared_.failure.events = parts.events;
}

void QueuePairEngines::set_number(std::uint32_t number) noexcept {
    shared_.traits.number = view_.number = number;
}

void QueuePairEngines::make(DeviceCore& core, const QueuePairParts& parts,
                            mlx5::DoorbellHook hook) {
    const Options& device = core.options();
    KeyTable& keys = core.keys();
    shared_.access.emplace(keys.accesses(), shared_.traits.number);
    if (!device.parked) view_.doorbell_hook = hook;
    if (device.strict_doorbells)
        strict_ = std::make_unique<StrictDoorbell>(view_, shared_.failure.text);
    send_.emplace(view_, parts.send_completions->ring(), keys, shared_,
                  RequesterOptions{.strict_doorbells = device.strict_doorbells && !device.parked,
                                   .faults = core.next_fault_injector()});
    receive_.emplace(view_, parts.shared_receives, parts.receive_completions->ring(), keys,
                     shared_);
}

void QueuePairEngines::stop() noexcept {
    send_gate_.enter_waiting();
    receive_gate_.enter_waiting();
}

bool QueuePairEngines::go_on() noexcept {
    const bool received = receive_gate_.leave_or_drop(), sent = send_gate_.leave_or_drop();
    return received && sent;
}

void QueuePairEngines::leave_gates() noexcept {
    receive_gate_.leave_for_good();
    send_gate_.leave_for_good();
}

void QueuePairEngines::reset() noexcept {
    send_->reset();
    receive_->reset();
    if (memory_ != nullptr) memory_->clear();
    if (strict_) strict_->reset();
}

QueuePairEngines::Return QueuePairEngines::must_return() const noexcept {
    const QueuePairState now = shared_.state.load(std::memory_order_acquire);
    if (receive_->waiting()) return Return::soon;
    if (now == QueuePairState::error) return send_->waiting() ? Return::soon : Return::late;
    if (now != QueuePairState::ready) return Return::never;
    const bool soon = send_->unexecuted() || send_->port().owes() || counts_time();
    return soon ? Return::soon : Return::never;
}

// Ready: the peer has no receive for a message, and there is an end to waiting for one.
bool QueuePairEngines::counts_time() const noexcept {
    return send_->outstanding() &&
           shared_.limits.not_ready_retries.load(std::memory_order_relaxed) !=
               QueuePairLimits::kForEver &&
           !shared_.traits.datagrams() && send_->port().message_waits();
}

bool QueuePairEngines::has_work() const noexcept {
    if (receive_->waiting() || send_->waiting()) return true;
    const QueuePairState now = shared_.state.load(std::memory_order_acquire);
    // The peer's end shows in its own ring only while it does not know of this one.
    const bool unseen = now == QueuePairState::ready && shared_.traits.ends_with_peer() &&
                        !shared_.traits.datagrams() && !shared_.connection.incoming.attached();
    return now == QueuePairState::error || unseen;
}

}  // namespace verbatim::softnic
