// Sparse blocks are zeroed memory of a few files, whose pages come when they are touched and go
// when the block is given back. So ten thousand rings need a handful of descriptors and mappings,
// and an idle one a page or two. Where the machine has no memory left for a touched page, the
// kernel ends a process; what must not meet that locks its memory. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <verbatim/core/arena.hpp>

#include "arena_memory.hpp"

namespace verbatim {

class SparseBlocks {
  public:
    // `like`: for locking and the NUMA node.
    SparseBlocks(const char* name, const ArenaOptions& like) : name_(name), like_(like) {}

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
    struct File {
        explicit File(ArenaOptions of) : options(std::move(of)) {}
        const ArenaOptions options;
        ArenaMemory memory{options, ArenaMemory::Pages::on_touch};
        bool has_room(std::size_t bytes) const noexcept {
            return options.max_bytes - memory.populated_bytes() >= bytes;
        }
    };
    // The first file has so many bytes of addresses, each further one twice as many, up to the
    // last: programs with few connections and little address space have them too.
    static constexpr std::size_t kFirstFile = std::size_t{16} << 20;
    static constexpr std::size_t kLastFile = std::size_t{1} << 30;

    Block grow(std::size_t bytes);
    void add_file(std::size_t bytes);

    const std::string name_;
    const ArenaOptions like_;
    std::mutex mutex_;                          // guards what follows
    std::vector<std::unique_ptr<File>> files_;  // the last one has room
    std::size_t next_bytes_ = kFirstFile;
    std::map<std::size_t, std::vector<Block>> free_;  // by length: there are few
    const std::uint64_t generation_ = fork_generation();
};

}  // namespace verbatim
