// The memory watch tells caches of registrations that memory is unmapped, moved or emptied, before
// the thread that did so goes on. It is a userfaultfd and the thread that reads it; nothing is
// write-protected. Source: userfaultfd(2), non-cooperative events; unprivileged since Linux 5.11.
//
// The kernel stops a thread that unmaps watched pages until the event has been read. It may hold
// the allocator's lock. So the watch's thread allocates nothing, and takes no lock under which
// anybody allocates. One for each process, for its life; a forked child gets a new one.
// Threads: any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <verbatim/driver/descriptor.hpp>

#include "watched_ranges.hpp"

struct uffd_msg;

namespace verbatim {

class MemoryWatch {
  public:
    // Null where the system allows none; said once, in the log.
    static MemoryWatch* instance() noexcept;

    // From now on ranges of the table may be watched; until detach().
    void attach(WatchedRanges& table) noexcept;
    void detach(WatchedRanges& table) noexcept;
    // Puts the pages into the slot, and watches them. False, and the slot is empty: the kernel
    // tells nothing of such memory (files, shared memory, huge pages, another's userfaultfd).
    bool watch(WatchedRanges& table, std::size_t slot, const PageRange& pages) noexcept;
    // Empties the slot. Pages that no other slot has cost their owner nothing any more.
    void unwatch(WatchedRanges& table, std::size_t slot, const PageRange& pages) noexcept;
    // Waits until whatever happened to memory before this call has been marked. False: it takes
    // long, as when a thread is stopped there.
    bool settle() const noexcept;

  private:
    static constexpr std::size_t kMostTables = 64;

    MemoryWatch() = default;
    ~MemoryWatch() = default;  // of one that could not be opened
    bool open() noexcept;
    bool is_attached(const WatchedRanges& table) noexcept;
    bool start() noexcept;
    bool is_changing() const noexcept;
    bool is_private(const PageRange& pages) const noexcept;
    bool ask(const PageRange& pages, std::uint64_t mode) const noexcept;
    void release(const PageRange& pages) const noexcept;
    bool is_used(const PageRange& pages, const std::atomic<bool>* own) noexcept;
    static void* entry(void* self) noexcept;
    void run() noexcept;
    void take(const uffd_msg& event) noexcept;
    void mark(const PageRange& pages) noexcept;

    Descriptor events_;
    const std::uint64_t generation_ = fork_generation();
    std::atomic<std::uint64_t> reads_{0};  // odd: events were read, and are not marked yet
    std::mutex control_;                   // one registration with the kernel at a time
    std::mutex tables_mutex_;              // guards what follows; held for moments only
    WatchedRanges* tables_[kMostTables] = {};
};

}  // namespace verbatim
