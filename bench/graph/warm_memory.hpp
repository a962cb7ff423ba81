// Memory for floors and peers: pre-faulted, of the same kind and page size as the library's own
// arenas, so that nobody wins by better pages. First-touch faults would cost more than most
// transfers.
#pragma once

#include <cstddef>
#include <memory_resource>

#include <verbatim/core/arena.hpp>

namespace bench_graph {

// One block of `bytes` bytes.
class WarmBlock {
  public:
    explicit WarmBlock(std::size_t bytes)
        : arena_({.name = "benchmark", .initial_bytes = bytes + 4096}),
          data_(static_cast<std::byte*>(arena_.allocate(bytes, 64))),
          bytes_(bytes) {}
    std::byte* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return bytes_; }

  private:
    verbatim::Arena arena_;
    std::byte* data_;
    std::size_t bytes_;
};

// Hands out a block front to back; reset() takes all of it back at once. Frees nothing singly,
// which is the cheapest life a received graph of a peer can have.
class WarmMemory final : public std::pmr::memory_resource {
  public:
    explicit WarmMemory(std::size_t bytes) : block_(bytes) {}
    void reset() noexcept { used_ = 0; }
    std::byte* data() const noexcept { return block_.data(); }
    std::size_t used() const noexcept { return used_; }

  private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        const std::size_t start = (used_ + alignment - 1) & ~(alignment - 1);
        if (start + bytes > block_.size()) throw std::bad_alloc();
        used_ = start + bytes;
        return block_.data() + start;
    }
    void do_deallocate(void*, std::size_t, std::size_t) override {}
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }

    WarmBlock block_;
    std::size_t used_ = 0;
};

}  // namespace bench_graph
