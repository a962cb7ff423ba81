// A completion queue of the software NIC: the device's side of it, the queue pairs that a poll of
// it drives forward, and its memory, unless that is somebody else's.
#pragma once

#include <cstdint>
#include <optional>

#include <verbatim/driver/device.hpp>

#include "completion_ring.hpp"
#include "progress_list.hpp"
#include "queue_memory.hpp"

namespace verbatim::softnic {

class QueuePair;

// Called after completions may have been written, by the thread that wrote them.
struct EventHook {
    void (*call)(void* context) noexcept = nullptr;
    void* context = nullptr;
};

class CompletionQueue final : public CompletionQueueHandle {
  public:
    CompletionQueue(std::uint32_t entries, std::uint32_t entry_bytes, std::uint32_t number,
                    bool parked);
    // In memory of the caller's, who initialised its entries and polls them in ways of its own.
    CompletionQueue(const mlx5::CompletionQueueView& view, const EventHook& event);

    const mlx5::CompletionQueueView& view() const noexcept override { return view_; }
    CompletionRing& ring() noexcept { return ring_; }

    void progress() noexcept { list_.progress(); }
    void announce() const noexcept {
        if (event_.call != nullptr) event_.call(event_.context);
    }

    // Control path: after detach() returns, no poll touches the queue pair any more.
    void attach(QueuePair& queue_pair) { list_.attach(queue_pair); }
    void detach(const QueuePair& queue_pair) { list_.detach(queue_pair); }

  private:
    static void progress_hook(void* self) noexcept;

    std::optional<CompletionQueueMemory> memory_;
    mlx5::CompletionQueueView view_;
    CompletionRing ring_;
    EventHook event_;
    ProgressList list_;
};

}  // namespace verbatim::softnic
