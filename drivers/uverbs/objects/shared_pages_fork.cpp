// What a forked child has of shared pages: a copy, as of the fork. The parent makes it before, and
// the child puts it where the pages were. Threads: the one that forks.
#include <sys/mman.h>
#include <unistd.h>

#include <verbatim/driver/log.hpp>

#include "shared_pages.hpp"

namespace verbatim::uverbs {
namespace {

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

// In the child.
void put_in_place(const SharedPages::Snapshot& one) noexcept {
    void* const place = one.range.memory();
    const std::uint64_t bytes = one.range.bytes();
    const bool moved =
        one.copy != nullptr &&
        mremap(one.copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED;
    if (!moved)
        munmap(place, bytes);
    else if (one.protection != (PROT_READ | PROT_WRITE))
        mprotect(place, bytes, one.protection);
}

}  // namespace

// Holds the lock until the fork is over. From the first copy on nothing allocates or frees, neither
// here nor in a thread of ours: the allocator's own words may lie in those pages, and the child has
// its other words as of the fork. Threads of the program that allocate meanwhile are its own risk:
// after a fork from several threads a child may call only what is safe in signal handlers.
void SharedPages::take_snapshots() {
    mutex_.lock();
    begin_afresh();
    if (!file_) return;
    auto& [standstill, found, copies] = snapshots_.emplace();
    survey({}, device_, inode_, found);
    copies.reserve(found.page_files.size());
    standstill.emplace(kPatience);
    for (const Mapped& mapped : found.page_files)
        if (!mapped.advice.not_forked)  // else the child gets nothing there
            copies.push_back({mapped.range, mapped.protection, copy_of(file_.get(), mapped)});
}

void SharedPages::drop_snapshots() noexcept {
    if (snapshots_)
        for (const Snapshot& one : snapshots_->copies) {
            if (one.copy != nullptr)
                munmap(one.copy, one.range.bytes());
            else
                log::warn(
                    "software NIC under rdma-core: no memory for a forked child's copy of {} "
                    "registered bytes, which it finds missing",
                    one.range.bytes());
        }
    snapshots_.reset();
    mutex_.unlock();
}

// In the child. Never is the parent's memory left to it.
void SharedPages::use_snapshots() noexcept {
    if (snapshots_) {
        for (const Snapshot& one : snapshots_->copies) put_in_place(one);
        snapshots_.reset();
    }
    mutex_.unlock();
}

}  // namespace verbatim::uverbs
