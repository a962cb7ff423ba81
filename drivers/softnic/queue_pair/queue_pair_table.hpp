// The table of a device's queue pairs: gives them numbers, and finds them by these. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace verbatim::softnic {

class QueuePair;

class QueuePairTable {
  public:
    struct Numbers {
        std::uint32_t first = 0, last = 0;
    };
    explicit QueuePairTable(Numbers numbers)
        : numbers_{numbers},
          numbers_left_(numbers.last - numbers.first + std::size_t{1}),
          next_(numbers.first) {}

    // Its number. `more` gives other numbers where all are in use, or throws.
    template <class More>
    std::uint32_t add(QueuePair& queue_pair, More&& more) {
        const std::lock_guard lock(mutex_);
        if (numbers_left_ == 0) append(more());
        return insert(queue_pair);
    }
    void remove(std::uint32_t number);

    // Under the table's lock: none of them goes meanwhile.
    template <class Function>
    void for_each(Function&& function) {
        const std::lock_guard lock(mutex_);
        for (const auto& [number, queue_pair] : queue_pairs_) function(*queue_pair);
    }
    // Null: there is no such queue pair.
    template <class Function>
    auto with(std::uint32_t number, Function&& function) {
        const std::lock_guard lock(mutex_);
        const auto found = queue_pairs_.find(number);
        return function(found == queue_pairs_.end() ? nullptr : found->second);
    }

  private:
    void append(Numbers numbers);
    std::uint32_t insert(QueuePair& queue_pair);
    std::uint32_t number_after(std::uint32_t number) const noexcept;

    std::mutex mutex_;  // guards what follows
    std::map<std::uint32_t, QueuePair*> queue_pairs_;
    std::vector<Numbers> numbers_;
    std::size_t numbers_left_;
    std::uint32_t next_;
};

}  // namespace verbatim::softnic
