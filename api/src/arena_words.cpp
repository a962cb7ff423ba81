#include <verbatim/objects/graph/arena_words.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace verbatim::objects {

ArenaWords::~ArenaWords() {
    if (view_.words != nullptr) munmap(view_.words, words_bytes() + view_.bytes / kPageBytes);
}

std::uint64_t ArenaWords::words_bytes() const noexcept {
    return view_.bytes / kImageGranule * sizeof(Word);
}

// Addresses only: a system that counts what may be stored counts no more than the states.
void ArenaWords::reserve() noexcept {
    View view{reinterpret_cast<std::uint64_t>(arena_.base()), arena_.reserved_bytes()};
    const std::uint64_t words = view.bytes / kImageGranule * sizeof(Word);
    void* const memory = mmap(nullptr, words + view.bytes / kPageBytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    view.words = static_cast<Word*>(memory);
    view.pages = static_cast<std::uint8_t*>(memory) + words;
    if (mprotect(view.pages, view.bytes / kPageBytes, PROT_READ | PROT_WRITE) != 0)
        return void(munmap(memory, words + view.bytes / kPageBytes));
    view_ = view;
}

// A part of the words at a time. Pages of memory come with the first store.
bool ArenaWords::make_usable(std::uint64_t page) noexcept {
    const std::uint64_t first = page / kPartPages * kPartPages;
    const std::uint64_t end = std::min(first + kPartPages, view_.bytes / kPageBytes);
    Word* const words = view_.words + first * kPageWords;
    const std::uint64_t bytes = (end - first) * kPageWords * sizeof(Word);
    if (mprotect(words, bytes, PROT_READ | PROT_WRITE) != 0) return false;
    for (std::uint64_t i = first; i < end; ++i) view_.pages[i] |= kUsable;
    return true;
}

ArenaWords::Word* ArenaWords::use(std::uint64_t address) noexcept {
    if (!arena_.contains(reinterpret_cast<const void*>(address)) || is_refused_) return nullptr;
    if (view_.words == nullptr) reserve();
    is_refused_ = view_.words == nullptr;
    if (is_refused_) return nullptr;
    const std::uint64_t page = (address - view_.base) / kPageBytes;
    std::uint8_t& state = view_.pages[page];
    if ((state & kUsable) == 0 && !make_usable(page)) return nullptr;
    with_memory_ += (state & kHasMemory) == 0;
    ++used_;
    state = kInUse | kHasMemory | kUsable;
    return view_.find(address);
}

bool ArenaWords::leave(std::uint64_t address, const Word* words) noexcept {
    if (!view_.holds(address) || words != view_.word(address / kPageBytes * kPageBytes))
        return false;
    view_.pages[(address - view_.base) / kPageBytes] = kHasMemory | kUsable;
    return true;
}

// Graphs that wander through a large arena would in the end have touched the words of all of it.
// The most that one of them used lately is forgotten by and by.
void ArenaWords::trim() noexcept {
    const std::uint64_t used = std::exchange(used_, 0);
    most_used_ = std::max(used, most_used_ - most_used_ / 16);
    if (with_memory_ <= std::max(kKeptPages, 4 * most_used_)) return;
    if (madvise(view_.words, words_bytes(), MADV_DONTNEED) != 0) return;
    with_memory_ = 0;
    for (std::uint64_t i = 0; i < view_.bytes / kPageBytes; ++i)
        if ((view_.pages[i] & kHasMemory) != 0)
            view_.pages[i] = kUsable;  // else it stays without memory
}

}  // namespace verbatim::objects
