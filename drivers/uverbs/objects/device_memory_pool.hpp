// The memory of the device itself (ibv_alloc_dm): a part of the device file, so that the program
// maps it by the descriptor that it has, in whole pages; and the device's own view of the same
// bytes, by which the engine reaches them. Threads: under the device file's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "handle_table.hpp"
#include "objects.hpp"

namespace verbatim::uverbs {

class DeviceMemoryPool {
  public:
    static constexpr std::size_t kPage = 4096, kPages = 256;
    static constexpr std::size_t kBytes = kPage * kPages;
    // Where libmlx5 maps page 0 from: command 8 in bits 8 and up of the page number, as
    // linux/uapi/rdma/mlx5-abi.h has its offsets.
    static constexpr std::size_t kFileOffset = std::size_t{8 << 8} * kPage;

    // `file`: the device file, of the caller. Throws Error(out_of_memory).
    explicit DeviceMemoryPool(int file);
    ~DeviceMemoryPool();
    DeviceMemoryPool(const DeviceMemoryPool&) = delete;
    DeviceMemoryPool& operator=(const DeviceMemoryPool&) = delete;

    // Pages in a row that nobody has, filled with zeros, the first of them a multiple of
    // `alignment` pages. False: there are none.
    bool take(std::size_t pages, std::size_t alignment, std::size_t& first) noexcept;
    void give(std::size_t first, std::size_t pages) noexcept;
    // The engine's address of a page.
    std::byte* at(std::size_t page) const noexcept { return memory_ + page * kPage; }

  private:
    std::byte* memory_ = nullptr;
    std::array<bool, kPages> taken_{};
};

// The pool, and the pieces of it that the program has.
struct DeviceMemories {
    explicit DeviceMemories(int file) : pool(file) {}

    DeviceMemoryPool pool;
    HandleTable<DeviceMemory> handles;
};

}  // namespace verbatim::uverbs
