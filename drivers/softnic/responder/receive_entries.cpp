// Taking and completing receives.
#include "receive_entries.hpp"

#include <cstring>

#include <verbatim/driver/log.hpp>

#include "../engine/entry_data.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

ReceiveEntries::ReceiveEntries(const mlx5::QueuePairView& view, SharedReceiveList* list,
                               CompletionRing& completions, KeyTable& keys,
                               QueuePairShared& shared) noexcept
    : view_(view),
      shares_(list != nullptr || shared.traits.xrc_domain != nullptr),
      shared_(&shared),
      // What waits in a shared queue is of that queue's domain.
      source_{list, &completions, &keys,
              LocalMemory(keys.view(), shared.failure.text,
                          list != nullptr ? list->domain() : shared.traits.domain),
              shared.traits.receive_index} {}

void ReceiveEntries::reset() noexcept {
    held_.store(false, std::memory_order_relaxed);
    head_.store(0, std::memory_order_relaxed);
    first_error_ = Syndrome::flushed;
}

// The doorbell record is nonsense.
ReceiveEntries::Taken ReceiveEntries::refuse_record(std::uint32_t available) noexcept {
    shared_->failure.text.set("the receive doorbell record announces {} receives in a queue of {}",
                              available, view_.receive_entries);
    return Taken::broken;
}

ReceiveEntries::Taken ReceiveEntries::take_shared() noexcept {
    const Taken taken = source_.list->take(entry_);
    if (taken == Taken::entry) held_.store(true, std::memory_order_relaxed);
    if (taken == Taken::broken) {
        shared_->failure.text.set(
            "the doorbell record or a link of shared receive queue {} does not fit its {} entries",
            source_.list->number(), source_.list->entries());
    }
    return taken;
}

bool ReceiveEntries::complete(mlx5::Cqe& cqe, const std::byte* in_entry,
                              std::uint64_t bytes) noexcept {
    cqe.shared_receive_index = mlx5::be32(source_.index);
    cqe.opcode_number = mlx5::be32(shared_->traits.number);
    cqe.wqe_counter = mlx5::be16(entry_);
    if (push(cqe, in_entry, bytes)) {
        finish();
        return true;
    }
    shared_->failure.text.set(
        "the receive completion queue is full: it must have room for all posted receives");
    fail(Syndrome::local_queue_pair, Syndrome::remote_operation);
    source_.completions->mark_overrun();
    shared_->failure.report(QueuePairEvent::fatal);
    return false;
}

// The message is acknowledged before its completion can be seen: else a program that answers it at
// once, while this thread is preempted between the two, has its answer at the sender before the
// acknowledgement.
bool ReceiveEntries::push(mlx5::Cqe& cqe, const std::byte* in_entry, std::uint64_t bytes) noexcept {
    written_ = source_.queue;
    const auto acknowledge = [this]() noexcept {
        if (!shared_->traits.datagrams()) shared_->connection.incoming.acknowledge();
    };
    if (in_entry == nullptr) return source_.completions->push(cqe, acknowledge);
    if (shared_->traits.receive_in_entry == kDataInEntry) {
        cqe.op_own |= mlx5::kInlineScatter32;
        std::memcpy(cqe.scatter.data(), in_entry, bytes);
        return source_.completions->push(cqe, acknowledge);
    }
    cqe.op_own |= mlx5::kInlineScatter64;
    CqeWithData entry;
    static_cast<mlx5::Cqe&>(entry) = cqe;
    entry.data = in_entry;
    entry.data_bytes = bytes;
    return source_.completions->push(entry, acknowledge);
}

void ReceiveEntries::finish() noexcept {
    if (source_.list != nullptr)
        held_.store(false, std::memory_order_relaxed);
    else
        head_.store(static_cast<std::uint16_t>(entry_ + 1), std::memory_order_relaxed);
}

bool ReceiveEntries::push_error(std::uint16_t entry) noexcept {
    mlx5::ErrorCqe cqe;
    cqe.syndrome = static_cast<std::uint8_t>(first_error_);
    cqe.shared_receive_index = mlx5::be32(source_.index);
    cqe.opcode_number = mlx5::be32(shared_->traits.number);
    cqe.wqe_counter = mlx5::be16(entry);
    cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::responder_error, false);
    written_ = source_.queue;
    if (!source_.completions->push(cqe)) return false;
    first_error_ = Syndrome::flushed;
    return true;
}

void ReceiveEntries::fail(Syndrome own, Syndrome peers) noexcept {
    first_error_ = own;
    log::warn("queue pair {}: {}", shared_->traits.number, shared_->failure.text.view());
    shared_->connection.incoming.refuse(static_cast<std::uint8_t>(peers));
    shared_->enter_error();
}

void ReceiveEntries::flush_own() noexcept {
    const std::uint16_t end = posted();
    std::uint16_t head = head_.load(std::memory_order_relaxed);
    if (static_cast<std::uint16_t>(end - head) > view_.receive_entries)
        head = static_cast<std::uint16_t>(end - view_.receive_entries);
    while (head != end && push_error(head)) ++head;
    head_.store(head, std::memory_order_relaxed);
}

void ReceiveEntries::give_back() noexcept {
    if (held() && push_error(entry_)) held_.store(false, std::memory_order_relaxed);
}

}  // namespace verbatim::softnic
