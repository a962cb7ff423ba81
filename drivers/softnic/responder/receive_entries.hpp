// The receives of a queue pair: taken from its own queue or from a shared one, and completed once.
// Of a shared queue it holds one entry at a time, while a message arrives; the others are
// everybody's. Threads: the one inside the receive gate, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "../../softqueue/completion_ring.hpp"
#include "../../softqueue/shared_receive_list.hpp"
#include "../ports/memory_access.hpp"
#include "../queue_pair/queue_pair_state.hpp"

namespace verbatim::softnic {

struct XrcQueue;

class ReceiveEntries {
  public:
    using Taken = SharedReceiveList::Taken;
    // Of an XRC target all of it is the message's, and there is no list between messages.
    struct Source {
        SharedReceiveList* list;  // null: the queue pair's own queue
        CompletionRing* completions;
        KeyTable* keys;       // that the receives name
        LocalMemory memory;   // by those keys
        std::uint32_t index;  // what completions carry as Cqe::shared_receive_index
        const XrcQueue* queue = nullptr;
    };

    ReceiveEntries(const mlx5::QueuePairView& view, SharedReceiveList* list,
                   CompletionRing& completions, KeyTable& keys, QueuePairShared& shared) noexcept;

    Source& source() noexcept { return source_; }
    const Source& source() const noexcept { return source_; }
    // They come from a queue that others use, too.
    bool shared() const noexcept { return shares_; }
    // One was taken from a shared queue. Any thread.
    bool held() const noexcept { return held_.load(std::memory_order_relaxed); }
    // Some of the own queue are not completed. Any thread.
    bool posted_any() const noexcept { return posted() != head_.load(std::memory_order_relaxed); }

    // The next one. It stays at the head of the own queue until it is completed, so that flush()
    // finds it.
    Taken take() noexcept {
        if (source_.list != nullptr) return take_shared();
        entry_ = head_.load(std::memory_order_relaxed);
        const auto available = static_cast<std::uint16_t>(posted() - entry_);
        if (available > view_.receive_entries) [[unlikely]]
            return refuse_record(available);
        return available == 0 ? Taken::nothing : Taken::entry;
    }
    // Its scatter list.
    std::span<const std::byte> segments() const noexcept {
        if (source_.list != nullptr) return source_.list->segments(entry_);
        const std::uint32_t index = entry_ & (view_.receive_entries - 1);
        return {view_.receive_buffer + (std::size_t{index} << view_.receive_stride_log2),
                std::size_t{1} << view_.receive_stride_log2};
    }
    // Completes it; `in_entry`, `bytes`: data that go into the completion, null: none. False: the
    // completion queue is full.
    bool complete(mlx5::Cqe& cqe, const std::byte* in_entry, std::uint64_t bytes) noexcept;

    // The current receive fails, and the message at the sender.
    void fail(mlx5::Syndrome own, mlx5::Syndrome peers) noexcept;
    // Error state: every posted receive of the own queue is retired once, as the completion queue
    // has room.
    void flush_own() noexcept;
    // Before the queue pair forgets its messages: flushes the shared entry that one is arriving in.
    // Others share that queue, so it must not be lost there.
    void give_back() noexcept;
    // The shared queue goes, and with it the entry. False: none was taken.
    bool drop_held() noexcept { return held_.exchange(false, std::memory_order_relaxed); }
    // XRC: the queue whose completions were written and not announced; null afterwards.
    const XrcQueue* written() const noexcept { return written_; }
    const XrcQueue* take_written() noexcept { return std::exchange(written_, nullptr); }
    void reset() noexcept;

  private:
    std::uint16_t posted() const noexcept {
        return static_cast<std::uint16_t>(
            read_record(view_.doorbell_record + mlx5::kRecordReceive));
    }
    Taken take_shared() noexcept;
    Taken refuse_record(std::uint32_t available) noexcept;
    void finish() noexcept;
    bool push(mlx5::Cqe& cqe, const std::byte* in_entry, std::uint64_t bytes) noexcept;
    bool push_error(std::uint16_t entry) noexcept;

    mlx5::QueuePairView view_;
    const bool shares_;
    QueuePairShared* shared_;
    Source source_;
    const XrcQueue* written_ = nullptr;
    std::atomic<std::uint16_t> head_{0};  // of the own queue: next receive to fill
    std::atomic<bool> held_{false};       // of the shared queue: entry_ was taken
    std::uint16_t entry_ = 0;             // of the current message, as its completion names it
    mlx5::Syndrome first_error_ = mlx5::Syndrome::flushed;  // of the receive that is flushed first
};

}  // namespace verbatim::softnic
