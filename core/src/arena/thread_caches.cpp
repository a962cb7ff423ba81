// Caches of threads, and what ends first: the thread or the arena.
#include "thread_caches.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace verbatim {
namespace {

// Never destroyed: threads end late.
alignas(std::mutex) std::byte g_joining[sizeof(std::mutex)];

// A thread of the parent may hold it, and is not there in a forked child to give it back. What it
// guards belongs to the parent's arenas, and is not looked at there.
void renew_joining() { new (g_joining) std::mutex; }

// Held while a cache is joined to an arena or leaves it.
std::mutex& joining() {
    static const bool is_made = [] {
        renew_joining();
        return pthread_atfork(nullptr, nullptr, renew_joining) == 0;
    }();
    static_cast<void>(is_made);
    return *std::launder(reinterpret_cast<std::mutex*>(g_joining));
}

struct Recent {
    std::uint64_t arena = 0;
    ThreadCache* cache = nullptr;
};
// Arenas' numbers begin with 1. `t_is_over`: the thread ends, and joins nothing any more.
constinit thread_local Recent t_recent;
constinit thread_local bool t_is_over = false;

}  // namespace

// The caches of this thread; its destructor gives their granules back.
struct CachesOfThread {
    CachesOfThread() = default;
    ~CachesOfThread() {
        t_is_over = true;
        t_recent = {};
        const std::lock_guard lock(joining());
        for (const auto& cache : list)
            if (cache->owner_ != nullptr && !cache->is_inherited()) cache->owner_->leave(*cache);
    }
    CachesOfThread(const CachesOfThread&) = delete;
    CachesOfThread& operator=(const CachesOfThread&) = delete;

    static CachesOfThread& mine() {
        static thread_local CachesOfThread caches;
        return caches;
    }
    std::vector<std::shared_ptr<ThreadCache>> list;
};

std::uint64_t ThreadCache::take(std::uint64_t granules) noexcept {
    std::uint64_t first = GranuleHeap::kNone;
    if (!freed_[granules].empty()) {
        first = freed_[granules].pop();
        freed_granules_ -= granules;
    } else if (granules <= end_ - next_) {
        first = next_;
        next_ += granules;
    } else {
        return first;
    }
    add_held(-static_cast<std::int64_t>(granules));
    return first;
}

bool ThreadCache::give(std::uint64_t first, std::uint64_t granules) noexcept {
    if (granules > GranuleHeap::kSmall || freed_granules_ + granules > kMostFreed) return false;
    try {
        freed_[granules].push(first);
    } catch (const std::bad_alloc&) {
        return false;
    }
    freed_granules_ += granules;
    add_held(static_cast<std::int64_t>(granules));
    return true;
}

bool ThreadCache::refill(GranuleHeap& heap) {
    const std::uint64_t first = heap.allocate(kRun, 1);
    if (first == GranuleHeap::kNone) return false;
    if (next_ != end_) heap.release(next_, end_ - next_);
    add_held(static_cast<std::int64_t>(kRun - (end_ - next_)));
    next_ = first;
    end_ = first + kRun;
    return true;
}

void ThreadCache::flush(GranuleHeap& heap) {
    for (std::uint64_t granules = 1; granules <= GranuleHeap::kSmall; ++granules)
        while (!freed_[granules].empty()) heap.release(freed_[granules].pop(), granules);
    if (next_ != end_) heap.release(next_, end_ - next_);
    next_ = end_ = 0;
    freed_granules_ = 0;
    held_.store(0, std::memory_order_relaxed);
}

ThreadCaches::ThreadCaches(std::mutex& mutex, GranuleHeap& heap)
    : mutex_(mutex), heap_(heap), number_([] {
          static std::atomic<std::uint64_t> last{0};
          return last.fetch_add(1, std::memory_order_relaxed) + 1;
      }()) {}

ThreadCaches::~ThreadCaches() {
    const std::lock_guard lock(joining());
    for (const auto& cache : caches_) cache->owner_ = nullptr;
}

ThreadCache* ThreadCaches::find() const noexcept {
    if (t_recent.arena == number_) return t_recent.cache;
    if (t_is_over) return nullptr;
    for (const auto& cache : CachesOfThread::mine().list)
        if (cache->arena() == number_) {
            t_recent = {number_, cache.get()};
            return cache.get();
        }
    return nullptr;
}

ThreadCache* ThreadCaches::join() noexcept try {
    if (t_is_over) return nullptr;
    auto cache = std::make_shared<ThreadCache>(number_);
    auto& mine = CachesOfThread::mine().list;
    const std::lock_guard joins(joining());
    std::erase_if(mine, [](const auto& one) { return one->owner_ == nullptr; });
    mine.reserve(mine.size() + 1);
    const std::lock_guard lock(mutex_);
    caches_.push_back(cache);
    any_.store(true, std::memory_order_relaxed);
    cache->owner_ = this;
    mine.push_back(std::move(cache));
    return caches_.back().get();
} catch (const std::bad_alloc&) {
    return nullptr;
}

std::uint64_t ThreadCaches::held() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& cache : caches_) sum += cache->held();
    return sum;
}

// Of a thread that ends, under the lock of joining.
void ThreadCaches::leave(ThreadCache& cache) noexcept {
    const std::lock_guard lock(mutex_);
    try {
        cache.flush(heap_);
    } catch (const std::bad_alloc&) {  // the heap cannot note them: lose the blocks
    }
    std::erase_if(caches_, [&](const auto& one) { return one.get() == &cache; });
}

}  // namespace verbatim
