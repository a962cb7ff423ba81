// Numbers of queue pairs.
#include "queue_pair_table.hpp"

namespace verbatim::softnic {

void QueuePairTable::append(Numbers numbers) {
    numbers_.push_back(numbers);
    numbers_left_ += numbers.last - numbers.first + std::size_t{1};
    next_ = numbers.first;
}

std::uint32_t QueuePairTable::insert(QueuePair& queue_pair) {
    while (queue_pairs_.contains(next_)) next_ = number_after(next_);
    const std::uint32_t number = next_;
    queue_pairs_[number] = &queue_pair;
    next_ = number_after(number);
    --numbers_left_;
    return number;
}

std::uint32_t QueuePairTable::number_after(std::uint32_t number) const noexcept {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
        if (numbers_[i].last == number) return numbers_[(i + 1) % numbers_.size()].first;
    return number + 1;
}

void QueuePairTable::remove(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    numbers_left_ += queue_pairs_.erase(number);
}

}  // namespace verbatim::softnic
