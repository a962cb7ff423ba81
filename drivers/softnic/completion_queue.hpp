// A completion queue of the software NIC: its memory, the device's side of it, and the queue pairs
// that a poll of it drives forward.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "completion_ring.hpp"
#include "queue_memory.hpp"

namespace verbatim::softnic {

class QueuePair;

class CompletionQueue final : public CompletionQueueHandle {
  public:
    CompletionQueue(std::uint32_t entries, std::uint32_t entry_bytes, std::uint32_t number,
                    bool parked);
    ~CompletionQueue() override;

    const mlx5::CompletionQueueView& view() const noexcept override { return memory_.view(); }
    CompletionRing& ring() noexcept { return ring_; }

    // Control path: after detach() returns, no poll touches the queue pair any more.
    void attach(QueuePair& queue_pair);
    void detach(const QueuePair& queue_pair);

  private:
    using List = std::vector<QueuePair*>;

    static void progress_hook(void* self) noexcept;
    void progress() noexcept;
    void replace(std::unique_ptr<List> list) noexcept;

    CompletionQueueMemory memory_;
    CompletionRing ring_;
    // Odd while a thread walks the list. One thread polls a queue at a time; a second one finds
    // nothing to do.
    std::atomic<std::uint64_t> rounds_{0};
    std::atomic<const List*> list_;
    std::mutex mutex_;  // of attach and detach
};

}  // namespace verbatim::softnic
