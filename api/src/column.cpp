// Memory for the tables of a walk.
#include <verbatim/objects/column.hpp>

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace verbatim::objects {

void* grow_table(void* old, std::size_t used_bytes, std::size_t bytes) {
    constexpr std::size_t kLargePage = std::size_t{2} << 20;
    void* memory = nullptr;
    if (bytes < kLargePage) {
        memory = std::malloc(bytes);
    } else {
        const std::size_t whole_pages = (bytes + kLargePage - 1) / kLargePage * kLargePage;
        memory = std::aligned_alloc(kLargePage, whole_pages);
        if (memory != nullptr) madvise(memory, whole_pages, MADV_HUGEPAGE);  // a wish, no more
    }
    if (memory == nullptr) throw std::bad_alloc();
    if (used_bytes > 0) std::memcpy(memory, old, used_bytes);
    std::free(old);
    return memory;
}

}  // namespace verbatim::objects
