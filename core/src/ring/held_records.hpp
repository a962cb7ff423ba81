// Records that were handed out and not yet given back, in the order of the ring. They come back in
// any order; the ring's space is free up to the first one that is still held. Threads: the lane's.
// Data path.
#pragma once

#include <array>
#include <cstdint>

namespace verbatim {

class HeldRecords {
  public:
    static constexpr std::uint32_t kMost = 64;

    bool full() const noexcept { return next_ - first_ == kMost; }
    bool empty() const noexcept { return next_ == first_; }
    std::uint32_t count() const noexcept { return next_ - first_; }

    // A record that ends at this position; not when full. Returns its number.
    std::uint32_t add(std::uint64_t end) noexcept {
        ends_[next_ % kMost] = end;
        held_ |= bit(next_);
        return next_++;
    }
    // The position up to which everything was given back; `before`: while that is nothing new.
    std::uint64_t give_back(std::uint32_t number, std::uint64_t before) noexcept {
        held_ &= ~bit(number);
        while (first_ != next_ && (held_ & bit(first_)) == 0) before = ends_[first_++ % kMost];
        return before;
    }

  private:
    static std::uint64_t bit(std::uint32_t number) noexcept {
        return std::uint64_t{1} << number % kMost;
    }

    std::array<std::uint64_t, kMost> ends_{};
    std::uint64_t held_ = 0;  // a bit for each of them
    std::uint32_t first_ = 0, next_ = 0;
};

}  // namespace verbatim
