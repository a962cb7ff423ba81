// The pause between two attempts doubles, and half of it is random, so that a thousand clients of
// one server do not come together. Threads: one.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace verbatim {

class ReconnectPause {
  public:
    using Time = std::chrono::milliseconds;
    ReconnectPause(Time first, Time longest, std::uint32_t seed)
        : first_(first), longest_(longest), next_(first), random_(seed) {}
    // After a connection.
    void reset() noexcept { next_ = first_; }
    std::chrono::microseconds next() {
        const std::chrono::microseconds half = std::chrono::microseconds(next_) / 2;
        next_ = std::min(next_ * 2, longest_);
        return half + std::chrono::microseconds(
                          std::uniform_int_distribution<std::int64_t>(0, half.count())(random_));
    }

  private:
    Time first_, longest_, next_;
    std::minstd_rand random_;
};

}  // namespace verbatim
