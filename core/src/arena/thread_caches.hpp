// Thread caches keep small blocks of an arena for one thread each, so that threads that allocate at
// the same time do not wait for each other. A thread gets one when it meets another thread in the
// arena: a program with one thread keeps the heap's placement.
//
// States of a cached granule, and its owner: in the run or in a queue of the cache (the thread),
// then live (the program), then in a queue of the cache of the thread that frees it, or in the
// heap. For the heap it is taken all the time. A thread that ends gives all of its granules back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/driver/descriptor.hpp>

#include "free_queue.hpp"
#include "granule_heap.hpp"

namespace verbatim {

class ThreadCaches;

// Threads: its own; the heap's part under the arena's lock.
class ThreadCache {
  public:
    explicit ThreadCache(std::uint64_t arena) noexcept : arena_(arena) {}

    // Of `granules`, at most GranuleHeap::kSmall. kNone: refill() first.
    std::uint64_t take(std::uint64_t granules) noexcept;
    // False: it is full, and the heap takes the block.
    bool give(std::uint64_t first, std::uint64_t granules) noexcept;
    // Takes a run out of the heap. False: there is none.
    bool refill(GranuleHeap& heap);
    // Gives everything back to the heap.
    void flush(GranuleHeap& heap);

    // Granules that are free in it. Any thread.
    std::uint64_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
    std::uint64_t arena() const noexcept { return arena_; }
    // Its arena is the parent's: a thread of that one may have been in the midst of a change.
    bool is_inherited() const noexcept { return generation_ != fork_generation(); }

  private:
    friend class ThreadCaches;
    friend struct CachesOfThread;
    // A run: 16 KiB. What is kept besides: 64 KiB.
    static constexpr std::uint64_t kRun = 1024, kMostFreed = 4096;

    void add_held(std::int64_t granules) noexcept {
        held_.store(held() + static_cast<std::uint64_t>(granules), std::memory_order_relaxed);
    }

    std::uint64_t arena_;               // its number
    ThreadCaches* owner_ = nullptr;     // null: the arena has gone. Guarded by the lock of joining
    std::uint64_t next_ = 0, end_ = 0;  // the run
    std::array<FreeQueue, GranuleHeap::kSmall + 1> freed_;
    std::uint64_t freed_granules_ = 0;
    std::atomic<std::uint64_t> held_{0};
    const std::uint64_t generation_ = fork_generation();
};

// The caches of one arena.
class ThreadCaches {
  public:
    // Both outlive it.
    ThreadCaches(std::mutex& mutex, GranuleHeap& heap);
    ~ThreadCaches();
    ThreadCaches(const ThreadCaches&) = delete;
    ThreadCaches& operator=(const ThreadCaches&) = delete;

    // No thread has one. Holds for as long as the arena's lock is held.
    bool empty() const noexcept { return !any_.load(std::memory_order_relaxed); }
    // Null: this thread has none.
    ThreadCache* mine() const noexcept { return empty() ? nullptr : find(); }
    // Gives this thread one. Null where it ends, or memory is short.
    ThreadCache* join() noexcept;
    // Granules that are free in caches, and their number. Under the arena's lock.
    std::uint64_t held() const noexcept;
    std::size_t size() const noexcept { return caches_.size(); }

  private:
    friend struct CachesOfThread;
    ThreadCache* find() const noexcept;
    void leave(ThreadCache& cache) noexcept;

    std::mutex& mutex_;
    GranuleHeap& heap_;
    const std::uint64_t number_;
    std::vector<std::shared_ptr<ThreadCache>> caches_;  // guarded by the arena's lock, as any_
    std::atomic<bool> any_{false};                      // was there ever; read without it
};

}  // namespace verbatim
