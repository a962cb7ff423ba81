// Where receives come from, the queue pair's own queue or a shared one, and how they go back
// without a message.
#include "receive_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

// It stays at the head until its completion is written, so that flush_own() finds it.
ReceiveEngine::Taken ReceiveEngine::take_own() noexcept {
    entry_ = head_.load(std::memory_order_relaxed);
    const auto available = static_cast<std::uint16_t>(posted() - entry_);
    if (available <= view_.receive_entries) return available == 0 ? Taken::nothing : Taken::entry;
    shared_->failure.text.set("the receive doorbell record announces {} receives in a queue of {}",
                              available, view_.receive_entries);
    return Taken::broken;
}

ReceiveEngine::Taken ReceiveEngine::take_shared() noexcept {
    const Taken taken = list_->take(entry_);
    if (taken == Taken::entry) holds_entry_.store(true, std::memory_order_relaxed);
    if (taken == Taken::broken) {
        shared_->failure.text.set(
            "the doorbell record or a link of shared receive queue {} does not fit its {} entries",
            list_->number(), list_->entries());
    }
    return taken;
}

std::span<const std::byte> ReceiveEngine::entry_segments() const noexcept {
    if (list_ != nullptr) return list_->segments(entry_);
    const std::uint32_t index = entry_ & (view_.receive_entries - 1);
    return {view_.receive_buffer + (std::size_t{index} << view_.receive_stride_log2),
            std::size_t{1} << view_.receive_stride_log2};
}

void ReceiveEngine::finish_entry() noexcept {
    if (list_ != nullptr)
        holds_entry_.store(false, std::memory_order_relaxed);
    else
        head_.store(static_cast<std::uint16_t>(entry_ + 1), std::memory_order_relaxed);
}

bool ReceiveEngine::push_error(std::uint16_t entry) noexcept {
    mlx5::ErrorCqe cqe;
    cqe.syndrome = static_cast<std::uint8_t>(first_error_);
    cqe.shared_receive_index = mlx5::be32(receive_index());
    cqe.opcode_number = mlx5::be32(shared_->traits.number);
    cqe.wqe_counter = mlx5::be16(entry);
    cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::responder_error, false);
    written_ = queue_;
    if (!completions_->push(cqe)) return false;
    first_error_ = Syndrome::flushed;
    return true;
}

// Error state: every posted receive is retired once, as the completion queue has room.
void ReceiveEngine::flush_own() noexcept {
    const std::uint16_t end = posted();
    std::uint16_t head = head_.load(std::memory_order_relaxed);
    if (static_cast<std::uint16_t>(end - head) > view_.receive_entries)
        head = static_cast<std::uint16_t>(end - view_.receive_entries);
    while (head != end && push_error(head)) ++head;
    head_.store(head, std::memory_order_relaxed);
}

// The same where receives are shared: only the one that a message was arriving in is this queue
// pair's.
void ReceiveEngine::give_back() noexcept {
    if (holds_entry_.load(std::memory_order_relaxed) && push_error(entry_))
        holds_entry_.store(false, std::memory_order_relaxed);
}

}  // namespace verbatim::softnic
