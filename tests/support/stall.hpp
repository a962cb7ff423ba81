// A limit for loops over many steps: on a busy machine all of them may take long, but each comes.
#pragma once

#include <chrono>
#include <cstdint>

namespace verbatim::test {

class Stall {
  public:
    // True once `progress` has been the same for 20 s.
    bool is_over(std::uint64_t progress) {
        const auto now = std::chrono::steady_clock::now();
        if (progress != last_) {
            last_ = progress;
            since_ = now;
        }
        return now - since_ > std::chrono::seconds(20);
    }

  private:
    std::uint64_t last_ = 0;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace verbatim::test
