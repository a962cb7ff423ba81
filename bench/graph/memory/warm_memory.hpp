// Memory for floors and peers: pre-faulted, of the same kind and page size as the library's own
// arenas, so that nobody wins by better pages. First-touch faults would cost more than most
// transfers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <span>
#include <utility>
#include <vector>

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

// The memory of one graph, taken back as a whole.
class GraphMemory : public std::pmr::memory_resource {
  public:
    virtual void reset() noexcept = 0;
    // From the first byte that was handed out since to behind the last.
    virtual std::span<const std::byte> extent() const noexcept = 0;

  private:
    void do_deallocate(void*, std::size_t, std::size_t) override {}
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }
};

// Hands out a block front to back, in granules as an arena does. Taking it back costs nothing,
// which is the cheapest life a received graph of a peer can have.
class WarmMemory final : public GraphMemory {
  public:
    explicit WarmMemory(std::size_t bytes) : block_(bytes) {}
    void reset() noexcept override { used_ = 0; }
    std::span<const std::byte> extent() const noexcept override { return {data(), used_}; }
    std::byte* data() const noexcept { return block_.data(); }
    std::size_t used() const noexcept { return used_; }

  private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        alignment = std::max(alignment, verbatim::Arena::kGranuleBytes);
        const std::size_t start = (used_ + alignment - 1) & ~(alignment - 1);
        if (start + bytes > block_.size()) throw std::bad_alloc();
        used_ = start + bytes;
        return block_.data() + start;
    }

    WarmBlock block_;
    std::size_t used_ = 0;
};

// The ordinary heap: an allocation for each object, freed singly. Keeping their list costs one
// store each.
class HeapMemory final : public GraphMemory {
  public:
    HeapMemory() = default;
    HeapMemory(const HeapMemory&) = delete;
    HeapMemory& operator=(const HeapMemory&) = delete;
    ~HeapMemory() override { reset(); }
    void reset() noexcept override {
        for (const auto& block : blocks_) ::operator delete(block.first);
        blocks_.clear();
    }
    std::span<const std::byte> extent() const noexcept override {
        std::uintptr_t low = ~std::uintptr_t{0}, high = 0;
        for (const auto& [place, bytes] : blocks_) {
            low = std::min(low, reinterpret_cast<std::uintptr_t>(place));
            high = std::max(high, reinterpret_cast<std::uintptr_t>(place) + bytes);
        }
        return {reinterpret_cast<const std::byte*>(low), high - low};
    }

  private:
    void* do_allocate(std::size_t bytes, std::size_t) override {
        return blocks_.emplace_back(::operator new(bytes), bytes).first;
    }

    std::vector<std::pair<void*, std::size_t>> blocks_;
};

}  // namespace bench_graph
