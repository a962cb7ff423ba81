// Blocks come from the end of the last file, or are those that were given back.
#include "sparse_blocks.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbatim {

SparseBlocks::Block SparseBlocks::take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<Block>& free = free_[bytes];
    if (free.empty()) return grow(bytes);
    const Block block = free.back();
    free.pop_back();
    return block;
}

SparseBlocks::Block SparseBlocks::grow(std::size_t bytes) {
    if (files_.empty() || !files_.back()->has_room(bytes)) add_file(bytes);
    ArenaMemory& memory = files_.back()->memory;
    const std::size_t offset = memory.populated_bytes();
    memory.grow(bytes);
    return {memory.base() + offset, bytes, memory.file_at(offset), offset};
}

void SparseBlocks::add_file(std::size_t bytes) {
    ArenaOptions options{.name = name_,
                         .segment_bytes = kSmallPageBytes,
                         .max_bytes = std::max(bytes, next_bytes_),
                         .pages = PageChoice::base_4k,
                         .lock_memory = like_.lock_memory,
                         .numa_node = like_.numa_node};
    try {
        files_.push_back(std::make_unique<File>(options));
    } catch (const Error&) {  // this block alone may find addresses still
        options.max_bytes = bytes;
        files_.push_back(std::make_unique<File>(options));
    }
    next_bytes_ = std::min(next_bytes_ * 2, kLastFile);
}

// The pages go back to the machine, or, where they are locked, are zeroed. In a forked child
// nothing happens: they are the parent's, and the child may have other memory at their addresses.
void SparseBlocks::give_back(const Block& block) noexcept {
    if (block.at == nullptr || generation_ != fork_generation()) return;
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
