// Sparse blocks are zeroed memory of one file, whose pages come when they are touched and go when
// the block is given back. So ten thousand rings need one descriptor and one mapping, and an idle
// one a page or two. Where the machine has no memory left for a touched page, the kernel ends a
// process; what must not meet that locks its memory. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <verbatim/core/arena.hpp>

#include "arena_memory.hpp"

namespace verbatim {

class SparseBlocks {
  public:
    // `like`: for locking and the NUMA node. Throws Error(out_of_memory).
    SparseBlocks(const char* name, const ArenaOptions& like);

    struct Block {
        std::byte* at = nullptr;
        std::size_t bytes = 0;
        int file = -1;
        std::uint64_t offset = 0;
    };
    // Whole pages. Throws Error(out_of_memory | permission_denied).
    Block take(std::size_t bytes);
    void give_back(const Block& block) noexcept;

  private:
    Block grow(std::size_t bytes);

    const ArenaOptions options_;
    std::mutex mutex_;  // guards what follows
    ArenaMemory memory_;
    std::map<std::size_t, std::vector<Block>> free_;  // by length: there are few
};

}  // namespace verbatim
