// A compose arena is the memory in which a message is composed: a memory resource that hands out
// one piece behind the other. It is private to the process until the message is sent. What is given
// back is not used again. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include <verbatim/objects/composed/composed_map.hpp>
#include <verbatim/objects/private_block.hpp>

namespace verbatim::objects {

class ComposeArena final : public std::pmr::memory_resource {
  public:
    // `base`: the address that it should have; where that is taken, or zero, any. Throws
    // Error(out_of_memory).
    explicit ComposeArena(std::uint64_t capacity, std::uint64_t base = 0);

    std::byte* data() const noexcept { return block_.data(); }
    std::uint64_t used() const noexcept { return used_; }
    // Nothing that it handed out lies outside of the message.
    bool is_whole() const noexcept { return is_whole_; }
    std::uint64_t address() const noexcept { return reinterpret_cast<std::uint64_t>(data()); }
    std::uint64_t offset_of(const void* object) const noexcept {
        return reinterpret_cast<std::uint64_t>(object) - address();
    }
    // The bytes to be sent. `root`: an object in them.
    ComposedMemory finish(const void* root) noexcept;

  private:
    // Throws Error(out_of_memory) where the machine has no memory. What is beyond the capacity lies
    // outside of the message.
    void* do_allocate(std::size_t bytes, std::size_t alignment) override;
    void do_deallocate(void*, std::size_t, std::size_t) override {}
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }

    const std::uint64_t capacity_;
    PrivateBlock block_;
    std::uint64_t used_ = ComposedHead::kBytes;
    bool is_whole_ = true;
    std::pmr::monotonic_buffer_resource outside_;
};

}  // namespace verbatim::objects
