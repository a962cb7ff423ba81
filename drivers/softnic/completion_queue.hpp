// A completion queue of the software NIC: its memory, the device's side of it, and the queue pairs
// that a poll of it drives forward. While its thread sleeps nobody polls: then peers must say when
// there is something to do (peer_waking.hpp), and their word raises the event.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "completion_channel.hpp"
#include "completion_ring.hpp"
#include "queue_memory.hpp"

namespace verbatim::softnic {

class QueuePair;

class CompletionQueue final : public CompletionQueueHandle {
  public:
    struct Options {
        std::uint32_t entries = 0, entry_bytes = 64, number = 0;
        bool parked = false;
        CompletionChannel* channel = nullptr;
    };
    explicit CompletionQueue(const Options& options);
    ~CompletionQueue() override;

    const mlx5::CompletionQueueView& view() const noexcept override { return memory_.view(); }
    void resize(std::uint32_t entries) override;
    CompletionRing& ring() noexcept { return ring_; }

    // Whether its thread may ever sleep.
    bool may_sleep() const noexcept { return channel_ != nullptr; }
    // What peers are told of its last arming (peer_waking.hpp).
    std::uint32_t sleep_word() const noexcept { return sleep_word_.load(); }
    // The control thread heard of something to do.
    void wake() noexcept { ring_.fire(); }

    // Control path: queue pairs whose engines may write here, from before they can until after.
    void add_writer(QueuePair& queue_pair);
    void remove_writer(const QueuePair& queue_pair);

    // Control path: after detach() returns, no poll touches the queue pair any more.
    void attach(QueuePair& queue_pair);
    void detach(const QueuePair& queue_pair);

  private:
    using List = std::vector<QueuePair*>;

    static void progress_hook(void* self) noexcept;
    static void arm_hook(void* self) noexcept;
    static void signal(void* self) noexcept;
    void progress() noexcept;
    void armed() noexcept;
    template <class Function>
    void walk(Function&& function) noexcept;
    void replace(std::unique_ptr<List> list) noexcept;

    CompletionQueueMemory memory_;
    CompletionRing ring_;
    // Buffers after resize(): the driver may still read the one before.
    std::unique_ptr<CompletionQueueMemory> buffer_, old_buffer_;
    CompletionChannel* channel_;
    CompletionChannel::Source source_;
    std::atomic<std::uint32_t> sleep_word_{0};
    // Odd while a thread walks the list. One thread polls a queue at a time; a second one finds
    // nothing to do.
    std::atomic<std::uint64_t> rounds_{0};
    std::atomic<const List*> list_;
    std::mutex mutex_;  // of attach and detach; guards writers_
    List writers_;
};

}  // namespace verbatim::softnic
