// What a forked child has of shared pages: a copy, as of the fork. The parent makes it before, and
// the child puts it where the pages were. Threads: the one that forks.
#include <sys/mman.h>
#include <unistd.h>

#include <verbatim/driver/log.hpp>

#include "shared_pages.hpp"

namespace verbatim::uverbs {
namespace {

void* at(std::uint64_t address) noexcept { return reinterpret_cast<void*>(address); }

// Null: there is no memory.
void* copy_of(int file, const Mapped& mapped) noexcept {
    const std::uint64_t bytes = mapped.range.bytes();
    void* const copy =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return nullptr;
    for (std::uint64_t done = 0; done < bytes;) {
        const ssize_t more = pread(file, static_cast<std::byte*>(copy) + done, bytes - done,
                                   static_cast<off_t>(mapped.offset + done));
        if (more <= 0) {
            munmap(copy, bytes);
            return nullptr;
        }
        done += static_cast<std::uint64_t>(more);
    }
    return copy;
}

}  // namespace

// Holds the lock until the fork is over.
void SharedPages::take_snapshots() {
    mutex_.lock();
    begin_afresh();
    if (!file_) return;
    Survey found;
    survey({}, device_, inode_, found);
    for (const Mapped& mapped : found.page_files) {
        if (mapped.advice.not_forked) continue;  // the child gets nothing there
        void* const copy = copy_of(file_.get(), mapped);
        if (copy == nullptr)
            log::warn(
                "software NIC under rdma-core: no memory for a forked child's copy of {} "
                "registered bytes, which it finds missing",
                mapped.range.bytes());
        snapshots_.push_back({mapped.range, mapped.protection, copy});
    }
}

void SharedPages::drop_snapshots() noexcept {
    for (const Snapshot& one : snapshots_)
        if (one.copy != nullptr) munmap(one.copy, one.range.bytes());
    snapshots_.clear();
    mutex_.unlock();
}

// In the child. Never is the parent's memory left to it.
void SharedPages::use_snapshots() noexcept {
    for (const Snapshot& one : snapshots_) {
        void* const place = at(one.range.first);
        const std::uint64_t bytes = one.range.bytes();
        const bool moved =
            one.copy != nullptr &&
            mremap(one.copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED;
        if (!moved)
            munmap(place, bytes);
        else if (one.protection != (PROT_READ | PROT_WRITE))
            mprotect(place, bytes, one.protection);
    }
    snapshots_.clear();
    mutex_.unlock();
}

}  // namespace verbatim::uverbs
