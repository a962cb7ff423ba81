// Size queues hold references that wait until the rest of a graph is done. They come out by the
// size of their target, the largest first: an object is larger than what it holds. Those of one
// size come out in the order in which they went in. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <verbatim/objects/column.hpp>

namespace verbatim::objects {

template <class Entry>
class SizeQueues {
  public:
    void push(std::uint64_t bytes, const Entry& entry) { queue_of(bytes).entries.push_back(entry); }
    // False: there is none.
    bool pop(Entry& entry) {
        Queue* largest = nullptr;
        for (std::size_t i = 0; i < used_; ++i)
            if (Queue& queue = queues_[i];
                !queue.entries.empty() && (largest == nullptr || queue.bytes > largest->bytes))
                largest = &queue;
        if (largest == nullptr) return false;
        entry = largest->entries[largest->taken++];
        if (largest->taken == largest->entries.size()) clear(*largest);
        return true;
    }
    // Keeps the memory.
    void clear() noexcept {
        for (std::size_t i = 0; i < used_; ++i) clear(queues_[i]);
        used_ = 0;
    }

  private:
    struct Queue {
        std::uint64_t bytes = 0;
        std::size_t taken = 0;
        Column<Entry> entries;
    };

    static void clear(Queue& queue) noexcept {
        queue.entries.clear();
        queue.taken = 0;
    }
    Queue& queue_of(std::uint64_t bytes) {
        for (std::size_t i = 0; i < used_; ++i)
            if (queues_[i].bytes == bytes) return queues_[i];
        if (used_ == queues_.size()) queues_.emplace_back();
        queues_[used_].bytes = bytes;
        return queues_[used_++];
    }

    std::vector<Queue> queues_;
    std::size_t used_ = 0;
};

}  // namespace verbatim::objects
