// A free queue keeps freed blocks of one size, and hands out the oldest first: objects that were
// freed in the order of a walk come back in that order. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbatim {

class FreeQueue {
  public:
    bool empty() const noexcept { return head_ == blocks_.size(); }
    std::uint64_t front() const noexcept { return blocks_[head_]; }
    std::uint64_t pop() noexcept {
        const std::uint64_t block = blocks_[head_++];
        if (head_ == blocks_.size()) clear();
        return block;
    }
    // Throws std::bad_alloc.
    void push(std::uint64_t block) {
        if (head_ > 1024 && head_ > blocks_.size() / 2) {  // amortised: each moves at most once
            blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(head_));
            head_ = 0;
        }
        blocks_.push_back(block);
    }
    void clear() noexcept { blocks_.clear(), head_ = 0; }

  private:
    std::vector<std::uint64_t> blocks_;
    std::size_t head_ = 0;
};

}  // namespace verbatim
