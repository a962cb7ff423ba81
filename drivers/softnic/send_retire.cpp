// Completions of the send queue: in order, each request exactly once.
#include <cstring>

#include <verbatim/driver/log.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/work_request.hpp>

#include "send_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

// What a request returns is put where its completion will be written from, instead of into memory,
// if it is small and its queue pair wants that.
void SendEngine::keep_for_entry(Unretired& result, const Request& request, std::size_t first_unit,
                                PieceList& list) noexcept {
    using mlx5::Opcode;
    const auto opcode = static_cast<Opcode>(result.opcode);
    const bool known =
        opcode == Opcode::read || opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
    if (!known || list.total > shared_->result_in_entry || !result.signaled) return;
    const auto element = [&](std::size_t i) {
        return request.wqe.read<mlx5::DataSegment>(first_unit + i);
    };
    if (!lies_where_named(list, element)) return;
    touch(list, list.total);
    const std::uint64_t bytes = list.total;
    list.count = 0, list.total = 0;
    list.add(entry_data(result), bytes);
    result.in_entry = true;
}

// Completes the request at once if nothing before it is outstanding.
void SendEngine::finish(const Unretired& result) noexcept {
    if (unretired_.load(std::memory_order_relaxed) == 0 && result.message == 0 && retire(result))
        return;
    if (result.syndrome != kNoSyndrome) stopped_ = true;
    keep(result);
}

bool SendEngine::keep(const Unretired& result) noexcept {
    const std::uint32_t count = unretired_.load(std::memory_order_relaxed);
    if (count == view_.send_blocks) return false;
    unretired_ring_[(oldest_ + count) & (view_.send_blocks - 1)] = result;
    unretired_.store(count + 1, std::memory_order_relaxed);
    return true;
}

SendEngine::Unretired& SendEngine::oldest() noexcept {
    return unretired_ring_[oldest_ & (view_.send_blocks - 1)];
}

void SendEngine::forget_oldest() noexcept {
    const std::uint32_t left = unretired_.load(std::memory_order_relaxed) - 1;
    oldest_ = left == 0 ? 0 : oldest_ + 1;
    unretired_.store(left, std::memory_order_relaxed);
}

// Retires what the peer has acknowledged, and what follows it up to the next unacknowledged
// message.
void SendEngine::harvest(bool silent) noexcept {
    const std::uint64_t acknowledged = shared_->outgoing.acknowledged();
    const auto refused = static_cast<Syndrome>(shared_->outgoing.refused());
    while (unretired_.load(std::memory_order_relaxed) != 0 && !shared_->is(QueuePairState::error)) {
        Unretired& oldest = this->oldest();
        if (oldest.message > acknowledged) {
            if (refused != kNoSyndrome)
                oldest.syndrome = refused;
            else if (silent)
                oldest.syndrome = Syndrome::retry_exceeded;
            else if (waited_too_long(oldest.message))
                oldest.syndrome = Syndrome::rnr_exceeded;
            else
                return;
            shared_->failure.set("the peer refused a message with syndrome {:#x}, or is gone",
                                 static_cast<unsigned>(oldest.syndrome));
        } else {
            take_atomic_result(oldest);
        }
        if (!retire(oldest)) return;
        forget_oldest();
    }
}

// The queue pair was moved to the error state: what the peer had acknowledged by then is complete
// all the same. A card would have said so already, and programs that part after their last message
// rely on it.
void SendEngine::retire_acknowledged() noexcept {
    if (shared_->link == nullptr) return;
    const std::uint64_t acknowledged = shared_->outgoing.acknowledged();
    while (unretired_.load(std::memory_order_relaxed) != 0) {
        Unretired& oldest = this->oldest();
        if (oldest.message > acknowledged) return;
        take_atomic_result(oldest);
        if (oldest.syndrome != kNoSyndrome || (oldest.signaled && !push_success(oldest))) return;
        forget_oldest();
    }
}

// What arrived before the acknowledgements were read may be received after.
void SendEngine::harvest_in_order(bool silent) noexcept {
    if (!shared_->orders_answers) return harvest(silent);
    const std::uint64_t arrived = shared_->incoming.arrived();
    harvest(silent);
    shared_->admitted.store(arrived, std::memory_order_release);
}

// The receiver says how long a try takes, the sender how many there are.
bool SendEngine::waited_too_long(std::uint64_t message) noexcept {
    const std::uint8_t retries = shared_->not_ready_retries.load(std::memory_order_relaxed);
    if (retries == QueuePairShared::kForEver || !shared_->outgoing.waits_for_receive(message))
        return false;
    const auto now = std::chrono::steady_clock::now();
    if (waiting_message_ != message) {
        waiting_message_ = message;
        waiting_since_ = now;
    }
    if (now - waiting_since_ < shared_->outgoing.not_ready_for() * (retries + 1)) return false;
    shared_->outgoing.give_up();
    return true;
}

// False: the completion queue is full; the queue pair is in error and the request is still to be
// flushed.
bool SendEngine::retire(const Unretired& result) noexcept {
    const bool failed = result.syndrome != kNoSyndrome;
    if (!failed && (!result.signaled || push_success(result))) return true;
    stopped_ = true;
    if (!failed)
        shared_->failure.set(
            "the send completion queue is full: it must have room for all outstanding requests");
    // A peer that went is no surprise worth a line of its own: whoever waits for it says so.
    if (result.syndrome != Syndrome::retry_exceeded)
        log::warn("queue pair {}: {}", shared_->number, shared_->failure.view());
    shared_->enter_error();
    if (!failed) {
        completions_->mark_overrun();
        shared_->report(QueuePairEvent::fatal);
    }
    return failed && push_error(result, result.syndrome);
}

mlx5::Cqe SendEngine::success(const Unretired& result) const noexcept {
    mlx5::Cqe cqe;
    cqe.shared_receive_index = mlx5::be32(shared_->send_index);
    cqe.byte_count = mlx5::be32(result.bytes);
    cqe.opcode_number = mlx5::be32(std::uint32_t{result.opcode} << 24 | shared_->number);
    cqe.wqe_counter = mlx5::be16(result.index);
    cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::requester, false);
    return cqe;
}

bool SendEngine::push_success(const Unretired& result) noexcept {
    return result.in_entry ? push_with_data(result) : completions_->push(success(result));
}

// Apart, so that the completion without data never leaves the registers.
bool SendEngine::push_with_data(const Unretired& result) noexcept {
    mlx5::Cqe cqe = success(result);
    cqe.op_own |= mlx5::kInlineScatter32;
    std::memcpy(cqe.scatter.data(), entry_data(result), result.bytes);
    return completions_->push(cqe);
}

bool SendEngine::push_error(const Unretired& result, Syndrome syndrome) noexcept {
    mlx5::ErrorCqe cqe;
    cqe.syndrome = static_cast<std::uint8_t>(syndrome);
    cqe.shared_receive_index = mlx5::be32(shared_->send_index);
    cqe.opcode_number = mlx5::be32(std::uint32_t{result.opcode} << 24 | shared_->number);
    cqe.wqe_counter = mlx5::be16(result.index);
    cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::requester_error, false);
    if (!completions_->push(cqe)) return false;
    error_reported_ = true;
    return true;
}

// Error state: every outstanding request gets its error completion, as the completion queue has
// room. The first one says why, if nothing has yet.
void SendEngine::flush() noexcept {
    const auto reason = [this](const Unretired& result) {
        if (error_reported_) return Syndrome::flushed;
        if (result.syndrome != kNoSyndrome) return result.syndrome;
        if (const Syndrome first = shared_->first_syndrome; first != kNoSyndrome) return first;
        return shared_->link != nullptr && shared_->peer_silent() ? Syndrome::retry_exceeded
                                                                  : Syndrome::flushed;
    };
    const auto end =
        static_cast<std::uint16_t>(read_record(view_.doorbell_record + mlx5::kRecordSend));
    ring(end);  // what strict doorbells had not let through is flushed as well
    if (!stopped_ && !error_reported_) retire_acknowledged();
    for (; outstanding(); forget_oldest())
        if (!push_error(oldest(), reason(oldest()))) return;
    std::uint16_t head = head_.load(std::memory_order_relaxed);
    // A record that runs further ahead than the ring is long is nonsense; what the ring holds is
    // flushed.
    if (static_cast<std::uint16_t>(end - head) > view_.send_blocks)
        head = static_cast<std::uint16_t>(end - view_.send_blocks);
    while (head != end) {
        const auto control = WqeReader(view_, head).read<mlx5::ControlSegment>(0);
        Unretired result;
        result.index = head;
        result.opcode = mlx5::opcode_of(control);
        if (!push_error(result, reason(result))) break;
        const std::uint32_t blocks = std::max(mlx5::blocks_for_units(mlx5::units_of(control)), 1U);
        head = static_cast<std::uint16_t>(
            head + std::min<std::uint32_t>(blocks, static_cast<std::uint16_t>(end - head)));
    }
    head_.store(head, std::memory_order_relaxed);
}

}  // namespace verbatim::softnic
