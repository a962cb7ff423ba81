// The queue pairs that one driver of progress goes round: a completion queue's polls, or an engine
// thread. Threads: progress() any, one of them walks at a time and the others find nothing to do;
// attach() and detach() control path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace verbatim::softnic {

class QueuePair;

class ProgressList {
  public:
    ProgressList() : list_(new List) {}
    ~ProgressList() { delete list_.load(std::memory_order_relaxed); }
    ProgressList(const ProgressList&) = delete;
    ProgressList& operator=(const ProgressList&) = delete;

    void progress() noexcept;
    // Calls `function` with each queue pair, unless another thread walks already.
    template <class Function>
    void walk(Function&& function) noexcept {
        std::uint64_t round = rounds_.load(std::memory_order_relaxed);
        if ((round & 1) != 0) return;
        // Sequentially consistent, as are the accesses in replace(): either this round is seen
        // there, or the new list is seen here.
        if (!rounds_.compare_exchange_strong(round, round + 1)) return;
        for (QueuePair* const queue_pair : *list_.load()) function(*queue_pair);
        rounds_.store(round + 2, std::memory_order_release);
    }

    void attach(QueuePair& queue_pair);
    // After it returns no progress() touches the queue pair any more.
    void detach(const QueuePair& queue_pair);

  private:
    using List = std::vector<QueuePair*>;
    void replace(std::unique_ptr<List> list) noexcept;

    std::atomic<std::uint64_t> rounds_{0};  // odd while a thread walks the list
    std::atomic<const List*> list_;
    std::mutex mutex_;  // of attach and detach
};

}  // namespace verbatim::softnic
