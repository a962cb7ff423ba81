// What lies in a range of this process's addresses, and where a file is mapped, as the system has
// it. Threads: any; what other threads map meanwhile may be missing.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace verbatim::uverbs {

struct PageRange {
    std::uint64_t first = 0, end = 0;
    std::uint64_t bytes() const noexcept { return end - first; }
    void* memory() const noexcept { return reinterpret_cast<void*>(first); }
    bool overlaps(const PageRange& other) const noexcept {
        return first < other.end && other.first < end;
    }
    PageRange within(const PageRange& other) const noexcept {
        return {first > other.first ? first : other.first, end < other.end ? end : other.end};
    }
};
// Of the pages that these bytes touch.
PageRange pages_of(std::uint64_t start, std::uint64_t bytes) noexcept;

// What a program may have asked for with madvise(), and keeps when its pages are exchanged.
struct Advice {
    bool not_forked = false, not_dumped = false, huge = false, never_huge = false;
    bool unreserved = false;
};

// One mapping.
struct Mapped {
    PageRange range;
    std::uint64_t offset = 0;  // in its file
    int protection = 0;        // PROT_ bits
    Advice advice;
    bool ours = false;   // of the page file
    bool plain = false;  // ordinary private memory that can be exchanged for another
};

struct Survey {
    std::vector<Mapped> inside;      // parts of mappings in the range, in order
    std::vector<Mapped> page_files;  // whole mappings of the page file, wherever
    std::size_t mappings = 0;        // of the process
    bool device_writes = false;      // the kernel may write to memory of this process by itself
    // All of the range is mapped.
    bool covers(const PageRange& range) const noexcept;
};

// `device` and `inode` name the page file; `inode` 0: there is none. False: it cannot be known.
bool survey(const PageRange& range, std::uint64_t device, std::uint64_t inode, Survey& result);
// The same of a given text.
bool survey_text(std::string_view text, const PageRange& range, std::uint64_t device,
                 std::uint64_t inode, Survey& result);

// Where a file is mapped so that stores reach it, by address. Quicker, since the system need not
// look at the pages. False: it cannot be known.
bool mapped_for_writing(std::uint64_t device, std::uint64_t inode, std::vector<Mapped>& found);

}  // namespace verbatim::uverbs
