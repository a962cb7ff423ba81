// A completion queue of the software NIC: the device's side of it, the queue pairs that a poll of
// it drives forward, and its memory, unless that is somebody else's. While its thread sleeps nobody
// polls: then peers must say when there is something to do (peer_waking.hpp), and their word raises
// the event.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "../softqueue/completion_ring.hpp"
#include "../softqueue/queue_memory.hpp"
#include "completion_channel.hpp"
#include "rings/progress_list.hpp"

namespace verbatim::softnic {

class QueuePair;

// Called after completions may have been written, by the thread that wrote them.
struct EventHook {
    void (*call)(void* context) noexcept = nullptr;
    void* context = nullptr;
};

class CompletionQueue final : public CompletionQueueHandle {
  public:
    struct Options {
        std::uint32_t entries = 0, entry_bytes = 64, number = 0;
        bool parked = false;
        CompletionChannel* channel = nullptr;
    };
    explicit CompletionQueue(const Options& options);
    // In memory of the caller's, who initialised its entries and polls them in ways of its own.
    CompletionQueue(const mlx5::CompletionQueueView& view, const EventHook& event);
    ~CompletionQueue() override;

    const mlx5::CompletionQueueView& view() const noexcept override { return view_; }
    void resize(std::uint32_t entries) override;
    void forget_old_buffer() noexcept override { old_buffer_.reset(); }
    // In the caller's memory as before, with entries initialised. False: more is unpolled than
    // fits, nothing changed.
    bool move_to(const mlx5::CompletionQueueView& next);
    CompletionRing& ring() noexcept { return ring_; }

    void progress() noexcept { list_.progress(); }
    void announce() const noexcept {
        if (event_.call != nullptr) event_.call(event_.context);
    }

    // Whether its thread may ever sleep.
    bool may_sleep() const noexcept { return channel_ != nullptr; }
    // What peers are told of its last arming (peer_waking.hpp).
    std::uint32_t sleep_word() const noexcept { return sleep_word_.load(); }
    // The control thread heard of something to do.
    void wake() noexcept {
        woken_.store(true, std::memory_order_relaxed);  // seen by armings after the next line
        ring_.fire();
    }

    // Where its thread waits; null: it never sleeps.
    CompletionChannel* channel() const noexcept { return channel_; }

    // Control path: queue pairs whose engines may write here, from before they can until after.
    void add_writer(QueuePair& queue_pair);
    void remove_writer(const QueuePair& queue_pair);

    // What polls drive.
    ProgressList& list() noexcept { return list_; }

  private:
    static void progress_hook(void* self) noexcept;
    static void arm_hook(void* self) noexcept;
    static void signal(void* self) noexcept;
    static bool disarm_hook(CompletionQueueHandle* self) noexcept;
    void armed() noexcept;

    std::optional<CompletionQueueMemory> memory_;
    mlx5::CompletionQueueView view_;
    CompletionRing ring_;
    EventHook event_;
    ProgressList list_;
    // Buffers after resize(): the driver may still read the one before.
    std::unique_ptr<CompletionQueueMemory> buffer_, old_buffer_;
    CompletionChannel* channel_ = nullptr;
    CompletionChannel::Source source_;
    std::atomic<std::uint32_t> sleep_word_{0};
    std::atomic<bool> woken_{false};  // since that word was told
    std::mutex mutex_;                // of resize; guards writers_
    std::vector<QueuePair*> writers_;
};

}  // namespace verbatim::softnic
