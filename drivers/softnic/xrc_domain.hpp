// An XRC domain: the targets (queue pairs that receive for others) and the shared receive queues
// that they deliver into. A message names its queue by number; the target takes a receive from it
// and completes it in that queue's completion queue. Any queue of the domain may be named at any
// target of it, whichever devices of this process they were made on. Threads: find() within the
// receive gate of a target, which keeps what it found; the others control path.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "../softqueue/shared_receive_list.hpp"
#include "completion_queue.hpp"
#include "host/descriptor.hpp"
#include "rings/channel.hpp"

namespace verbatim::softnic {

class DeviceCore;
class QueuePair;

// A shared receive queue as targets see it. Its owner keeps all of it until remove() has returned.
struct XrcQueue {
    SharedReceiveList* list = nullptr;
    CompletionQueue* completions = nullptr;
    DeviceCore* device = nullptr;  // whose keys its receives name
    std::uint32_t index = 0;       // what completions carry as Cqe::shared_receive_index
};

class XrcDomain {
  public:
    XrcDomain();
    XrcDomain(const XrcDomain&) = delete;
    XrcDomain& operator=(const XrcDomain&) = delete;

    // Null: there is no such queue.
    const XrcQueue* find(std::uint32_t number) const noexcept {
        const XrcQueue* const found = queues_[number % kXrcQueues].load(std::memory_order_acquire);
        return found != nullptr && found->list->number() == number ? found : nullptr;
    }
    // Where targets complete what no queue was named for, which is nothing. Its list is that of the
    // targets: each queue's completions drive it.
    CompletionQueue& no_completions() noexcept { return no_completions_; }

    // A number for another queue of `device`; 0: the domain is full.
    std::uint32_t free_number(DeviceCore& device);
    // False: its number is taken.
    bool add(const XrcQueue& queue);
    // Afterwards no target touches the queue; one that was receiving into it has failed.
    void remove(const XrcQueue& queue) noexcept;

    // By targets, under the lock: queues come and go while a target is a member. One that has left
    // may still complete what it had begun, until write_no_more().
    std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
    void join(QueuePair& target);
    void name_queues(QueuePair& target) const noexcept;
    void leave(QueuePair& target) noexcept;
    void write_no_more(const QueuePair& target) noexcept;

  private:
    template <class Function>
    void for_each_queue(Function&& function) const {
        for (const auto& place : queues_)
            if (const XrcQueue* const queue = place.load()) function(*queue);
    }
    bool completes_elsewhere(const XrcQueue& queue) const noexcept;

    const std::uint64_t generation_ = fork_generation();
    CompletionQueue no_completions_;
    std::array<std::atomic<const XrcQueue*>, kXrcQueues> queues_{};  // by number modulo their count
    std::mutex mutex_;  // of what changes queues_, and of what follows
    std::vector<QueuePair*> targets_;
};

}  // namespace verbatim::softnic
