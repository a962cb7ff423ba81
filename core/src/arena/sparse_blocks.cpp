// Blocks come from the end of the file, or are those that were given back.
#include "sparse_blocks.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace verbatim {
namespace {

// Addresses only: 65,000 rings of the default length.
constexpr std::size_t kMostBytes = std::size_t{64} << 30;

ArenaOptions sparse_arena(const char* name, const ArenaOptions& like) {
    return {.name = name,
            .segment_bytes = kSmallPageBytes,
            .max_bytes = kMostBytes,
            .pages = PageChoice::base_4k,
            .lock_memory = like.lock_memory,
            .numa_node = like.numa_node};
}

}  // namespace

SparseBlocks::SparseBlocks(const char* name, const ArenaOptions& like)
    : options_(sparse_arena(name, like)), memory_(options_, ArenaMemory::Pages::on_touch) {}

SparseBlocks::Block SparseBlocks::take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<Block>& free = free_[bytes];
    if (free.empty()) return grow(bytes);
    const Block block = free.back();
    free.pop_back();
    return block;
}

SparseBlocks::Block SparseBlocks::grow(std::size_t bytes) {
    const std::size_t offset = memory_.populated_bytes();
    memory_.grow(bytes / kSmallPageBytes);
    return {memory_.base() + offset, bytes, memory_.file_at(offset), offset};
}

// The pages go back to the machine, or, where they are locked, are zeroed. In a forked child, which
// has none of them, nothing happens: they are the parent's.
void SparseBlocks::give_back(const Block& block) noexcept {
    if (block.at == nullptr) return;
    if (madvise(block.at, block.bytes, MADV_REMOVE) != 0) {
        if (errno != EINVAL) return;
        std::memset(block.at, 0, block.bytes);
    }
    try {
        const std::lock_guard lock(mutex_);
        free_[block.bytes].push_back(block);
    } catch (const std::bad_alloc&) {  // lose the addresses, not the program
    }
}

}  // namespace verbatim
