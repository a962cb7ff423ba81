// Retirement: by answers of the peer, by errors, by flushing.
#include "completion_order.hpp"

#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include <verbatim/driver/log.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

CompletionOrder::CompletionOrder(const mlx5::QueuePairView& view, CompletionRing& completions,
                                 QueuePairShared& shared, ChosenPort& port,
                                 RequestElements& elements)
    : view_(view),
      completions_(&completions),
      shared_(&shared),
      port_(&port),
      elements_(&elements),
      ring_(static_cast<ExecutedRequest*>(std::calloc(view.send_blocks, sizeof(ExecutedRequest)))) {
    static_assert(std::is_trivially_copyable_v<ExecutedRequest>);
    if (ring_ == nullptr) throw std::bad_alloc();
    if (shared.traits.result_in_entry != 0)
        entry_data_ = std::make_unique<std::array<std::byte, kDataInEntry>[]>(view.send_blocks);
}

void CompletionOrder::reset() noexcept {
    count_.store(0, std::memory_order_relaxed);
    oldest_ = results_due_ = 0;
    stopped_ = error_reported_ = false;
    waiting_ticket_ = 0;
}

void CompletionOrder::keep_for_entry(SendRequest& request, std::size_t first_unit,
                                     PieceList& list) noexcept {
    const Opcode opcode = request.opcode();
    const bool known =
        opcode == Opcode::read || opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
    const bool atomic = opcode != Opcode::read;
    list.big_endian = atomic && (view_.big_endian_results & list.total) != 0;
    if (!known || list.total > shared_->traits.result_in_entry || !request.result.signaled) return;
    const auto element = [&](std::size_t i) {
        return request.wqe.read<mlx5::DataSegment>(first_unit + i);
    };
    if (!lies_where_named(list, element)) return;
    touch(list, list.total);
    const std::uint64_t bytes = list.total;
    list.count = 0, list.total = 0;
    list.add(entry_data(request.result), bytes);
    list.big_endian = atomic;
    request.result.in_entry = true;
}

void CompletionOrder::finish(const ExecutedRequest& result) noexcept {
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    if (count == 0 && result.ticket == 0 && retire(result)) return;
    if (result.syndrome != kNoSyndrome) stopped_ = true;
    if (count == view_.send_blocks) return;
    // Nothing is acknowledged for it, so those before it may not have asked.
    if (result.ticket == 0 && (result.signaled || stopped_)) port_->await_last();
    if (result.result_unit != 0) ++results_due_;
    ring_[(oldest_ + count) & (view_.send_blocks - 1)] = result;
    count_.store(count + 1, std::memory_order_relaxed);
}

void CompletionOrder::forget_oldest() noexcept {
    const std::uint32_t left = count_.load(std::memory_order_relaxed) - 1;
    oldest_ = left == 0 ? 0 : oldest_ + 1;
    count_.store(left, std::memory_order_relaxed);
}

// Of what the peer refused, or this side could not place, the syndrome is set.
bool CompletionOrder::answered(ExecutedRequest& oldest) noexcept {
    if (oldest.syndrome != kNoSyndrome) return true;
    if (oldest.result_unit == 0) return oldest.ticket <= port_->acknowledged();
    return port_->has_result(oldest.ticket) && take_result(oldest);
}

// Elements are looked up anew: their keys may have gone meanwhile.
bool CompletionOrder::take_result(ExecutedRequest& oldest) noexcept {
    SendRequest request(view_, oldest.index);
    const MemoryTouch inside(elements_->access());
    PieceList list;
    oldest.syndrome = elements_->collect(request, oldest.result_unit, Access::local_write, list);
    if (oldest.syndrome != kNoSyndrome) return true;
    takes_result_ = true;
    keep_for_entry(request, oldest.result_unit, list);
    oldest.in_entry = request.result.in_entry;
    const bool whole = port_->take_result(list);
    takes_result_ = false;
    if (!whole) return false;
    oldest.result_unit = 0;
    --results_due_;
    return true;
}

bool CompletionOrder::fail_taking() noexcept {
    if (!std::exchange(takes_result_, false)) return false;
    oldest().syndrome = Syndrome::local_protection;
    return true;
}

void CompletionOrder::harvest(bool silent) noexcept {
    // Asked before the acknowledgements, which it follows at the peer.
    const Syndrome refused = port_->refused();
    while (outstanding() && !shared_->is(QueuePairState::error)) {
        ExecutedRequest& oldest = this->oldest();
        if (!answered(oldest)) {
            if (refused != kNoSyndrome)
                oldest.syndrome = refused;
            else if (silent)
                oldest.syndrome = Syndrome::retry_exceeded;
            else if (waited_too_long(oldest.ticket))
                oldest.syndrome = Syndrome::rnr_exceeded;
            else
                return;
            shared_->failure.text.set("the peer refused a message with syndrome {:#x}, or is gone",
                                      static_cast<unsigned>(oldest.syndrome));
        }
        if (!retire(oldest)) return;
        forget_oldest();
    }
}

// The receiver says how long a try takes, the sender how many there are behind the first one.
bool CompletionOrder::waited_too_long(Ticket ticket) noexcept {
    const std::uint8_t retries = shared_->limits.not_ready_retries.load(std::memory_order_relaxed);
    if (retries == QueuePairLimits::kForEver || !port_->waits_for_receive(ticket)) return false;
    const auto now = std::chrono::steady_clock::now();
    if (waiting_ticket_ != ticket) {
        waiting_ticket_ = ticket;
        waiting_since_ = now;
    }
    if (port_->tries(now - waiting_since_) <= retries) return false;
    port_->give_up();
    return true;
}

// False: the completion queue is full; the queue pair is in error and the request is still to be
// flushed.
bool CompletionOrder::retire(const ExecutedRequest& result) noexcept {
    const bool failed = result.syndrome != kNoSyndrome;
    if (!failed && (!result.signaled || push_success(result))) return true;
    stopped_ = true;
    if (!failed)
        shared_->failure.text.set(
            "the send completion queue is full: it must have room for all outstanding requests");
    // A peer that went is no surprise worth a line of its own: its completion says so.
    if (result.syndrome != Syndrome::retry_exceeded) {
        if (shared_->failure.text.view().empty())
            shared_->failure.text.set("a request was refused with syndrome {:#x}",
                                      static_cast<unsigned>(result.syndrome));
        log::warn("queue pair {}: {}", shared_->traits.number, shared_->failure.text.view());
    }
    shared_->enter_error();
    if (!failed) {
        completions_->mark_overrun();
        shared_->failure.report(QueuePairEvent::fatal);
    }
    return failed && push_error(result, result.syndrome);
}

// The queue pair was moved to the error state: what the peer had answered by then is complete all
// the same. A card would have said so already, and programs that part after their last message rely
// on it.
void CompletionOrder::retire_answered() noexcept {
    while (outstanding()) {
        ExecutedRequest& oldest = this->oldest();
        if (!answered(oldest) || oldest.syndrome != kNoSyndrome) return;
        if (oldest.signaled && !push_success(oldest)) return;
        forget_oldest();
    }
}

bool CompletionOrder::flush_outstanding() noexcept {
    if (!stopped_ && !error_reported_) retire_answered();
    for (; outstanding(); forget_oldest())
        if (!flush(oldest())) return false;
    return true;
}

// The first one says why, if nothing has yet.
Syndrome CompletionOrder::reason(const ExecutedRequest& result) const noexcept {
    if (error_reported_) return Syndrome::flushed;
    if (result.syndrome != kNoSyndrome) return result.syndrome;
    if (const Syndrome first = shared_->failure.first_syndrome; first != kNoSyndrome) return first;
    return port_->silent() ? Syndrome::retry_exceeded : Syndrome::flushed;
}

mlx5::Cqe CompletionOrder::success(const ExecutedRequest& result) const noexcept {
    mlx5::Cqe cqe;
    cqe.shared_receive_index = mlx5::be32(shared_->traits.send_index);
    cqe.byte_count = mlx5::be32(result.bytes);
    cqe.opcode_number = mlx5::be32(std::uint32_t{result.opcode} << 24 | shared_->traits.number);
    cqe.wqe_counter = mlx5::be16(result.index);
    cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::requester, false);
    return cqe;
}

bool CompletionOrder::push_success(const ExecutedRequest& result) noexcept {
    return result.in_entry ? push_with_data(result) : completions_->push(success(result));
}

// Apart, so that the completion without data never leaves the registers.
bool CompletionOrder::push_with_data(const ExecutedRequest& result) noexcept {
    mlx5::Cqe cqe = success(result);
    cqe.op_own |= mlx5::kInlineScatter32;
    std::memcpy(cqe.scatter.data(), entry_data(result), result.bytes);
    return completions_->push(cqe);
}

bool CompletionOrder::push_error(const ExecutedRequest& result, Syndrome syndrome) noexcept {
    mlx5::ErrorCqe cqe;
    cqe.syndrome = static_cast<std::uint8_t>(syndrome);
    cqe.shared_receive_index = mlx5::be32(shared_->traits.send_index);
    cqe.opcode_number = mlx5::be32(std::uint32_t{result.opcode} << 24 | shared_->traits.number);
    cqe.wqe_counter = mlx5::be16(result.index);
    cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::requester_error, false);
    if (!completions_->push(cqe)) return false;
    error_reported_ = true;
    return true;
}

}  // namespace verbatim::softnic
