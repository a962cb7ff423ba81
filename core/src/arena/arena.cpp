// The arena: a granule heap over populated segments, behind one mutex.
#include <verbatim/core/arena.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "arena_memory.hpp"
#include "granule_heap.hpp"
#include "live_bits.hpp"
#include "poison.hpp"
#include "thread_caches.hpp"

namespace verbatim {
namespace {

constexpr std::size_t kPageAligned = std::size_t{64}
                                     << 10;  // allocations from here on start on a page

[[noreturn]] void refuse(const ArenaOptions& options, const std::string& cause,
                         const std::string& remedy) {
    throw Error(Errc::config_error, "arena " + options.name, cause, remedy);
}

ArenaOptions checked(ArenaOptions options) {
    const std::size_t segment = options.segment_bytes;
    const std::size_t page = options.pages == PageChoice::huge_1g   ? std::size_t{1} << 30
                             : options.pages == PageChoice::huge_2m ? std::size_t{2} << 20
                                                                    : kSmallPageBytes;
    if (!std::has_single_bit(segment) || segment < page)
        refuse(options, fmt::format("segment_bytes = {}", segment),
               fmt::format("it must be a power of two, at least the page size ({})", page));
    if (options.max_bytes < segment || options.max_bytes > std::size_t{1} << 46)
        refuse(options, fmt::format("max_bytes = {}", options.max_bytes),
               fmt::format("it must be between segment_bytes ({}) and 64 TiB", segment));
    if (options.max_bytes / segment > kMostSegments)
        refuse(options,
               fmt::format("max_bytes = {} makes more than {} segments", options.max_bytes,
                           kMostSegments),
               "raise segment_bytes");
    options.max_bytes = (options.max_bytes + segment - 1) / segment * segment;
    if (options.initial_bytes > options.max_bytes)
        refuse(options, fmt::format("initial_bytes = {}", options.initial_bytes),
               fmt::format("it must not exceed max_bytes ({})", options.max_bytes));
    options.initial_bytes = (options.initial_bytes + segment - 1) / segment * segment;
    return options;
}

constexpr std::uint64_t granules_of(std::size_t bytes) noexcept {
    return bytes == 0 ? 1 : (bytes + Arena::kGranuleBytes - 1) / Arena::kGranuleBytes;
}

}  // namespace

// The live bitmap: address space for the whole reservation, memory only where granules are live.
class LiveBitmap {
  public:
    explicit LiveBitmap(const ArenaOptions& options)
        : bytes_(std::max(kSmallPageBytes, options.max_bytes / Arena::kGranuleBytes / 8)) {
        words_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (words_ == MAP_FAILED)
            throw Error(Errc::out_of_memory, "arena " + options.name,
                        "cannot map its allocation bitmap", "lower max_bytes");
    }
    ~LiveBitmap() { munmap(words_, bytes_); }
    LiveBitmap(const LiveBitmap&) = delete;
    LiveBitmap& operator=(const LiveBitmap&) = delete;
    std::uint64_t* words() const noexcept { return static_cast<std::uint64_t*>(words_); }

  private:
    std::size_t bytes_;
    void* words_;
};

struct Arena::State {
    explicit State(const ArenaOptions& options)
        : bitmap(options), bits(bitmap.words()), memory(options) {}

    // Under the mutex. Populates until `granules` can be used; all or nothing.
    void grow_to(std::uint64_t granules) {
        memory.grow((granules - heap.populated()) * kGranuleBytes);
        heap.extend(memory.populated_bytes() / kGranuleBytes);
    }

    // Populates to the end of a segment at most, or what is missing for so much. True: nothing is,
    // or never can be.
    bool populate_part(std::uint64_t granules, std::uint64_t step, const ArenaOptions& options,
                       bool& may_populate) {
        std::uint64_t first = heap.allocate(granules, step);
        if (first == GranuleHeap::kNone && heap.consolidate())
            first = heap.allocate(granules, step);
        if (first != GranuleHeap::kNone) {
            heap.release(first, granules);
            return true;
        }
        const std::uint64_t wanted = heap.populated_for(granules, step);
        if (wanted > options.max_bytes / kGranuleBytes) return true;
        if (!std::exchange(may_populate, false)) return false;
        const std::uint64_t segment = options.segment_bytes / kGranuleBytes;
        const std::uint64_t part = (heap.populated() / segment + 1) * segment;
        grow_to(std::min(wanted, part));
        return wanted <= part;
    }

    // This thread's cache for blocks of this size; made where another thread has the lock, else
    // `lock` is held. Null: the heap serves them.
    ThreadCache* cache_for(std::uint64_t granules, std::unique_lock<std::mutex>& lock) {
        if (granules > GranuleHeap::kSmall) return nullptr;
        ThreadCache* const mine = caches.mine();
        return mine != nullptr || lock.try_lock() ? mine : caches.join();
    }
    // Of that cache. kNone: it has none.
    std::uint64_t take_cached(ThreadCache& cache, std::uint64_t granules) {
        std::uint64_t first = cache.take(granules);
        if (first == GranuleHeap::kNone) {
            const std::lock_guard lock(mutex);
            if (!cache.refill(heap)) return first;
            peak = std::max(peak, heap.taken());
            first = cache.take(granules);
        }
        bits.set(first, granules, LiveBits::Writers::many);
        return first;
    }
    // False, and nothing done, if one of them is not live. Throws std::bad_alloc: they are lost.
    bool release(std::uint64_t first, std::uint64_t granules) {
        std::unique_lock lock(mutex, std::defer_lock);
        ThreadCache* const cache = cache_for(granules, lock);
        if (cache == nullptr && !lock) lock.lock();
        if (poison::kOn && bits.all(first, granules))
            poison::put(memory.base() + first * kGranuleBytes, granules * kGranuleBytes);
        if (!bits.clear(first, granules, writers(lock))) return false;
        if (cache != nullptr && cache->give(first, granules)) return true;
        if (!lock) lock.lock();
        if (cache != nullptr) cache->flush(heap);  // it is full
        heap.release(first, granules);
        return true;
    }
    LiveBits::Writers writers(const std::unique_lock<std::mutex>& lock) const noexcept {
        return lock && caches.empty() ? LiveBits::Writers::one : LiveBits::Writers::many;
    }

    std::mutex mutex;
    LiveBitmap bitmap;
    LiveBits bits;
    ArenaMemory memory;
    GranuleHeap heap;
    ThreadCaches caches{mutex, heap};
    std::uint64_t peak = 0;  // granules
};

Arena::Arena(const ArenaOptions& options)
    : options_(checked(options)), state_(std::make_unique<State>(options_)) {
    base_ = state_->memory.base();
    live_ = state_->bitmap.words();
    if (options_.initial_bytes != 0) state_->grow_to(granules_of(options_.initial_bytes));
}

// A thread of the parent may have been in the midst of a change: a forked child leaves its copy.
Arena::~Arena() {
    if (state_->memory.is_inherited()) (void)state_.release();
}

void* Arena::do_allocate(std::size_t bytes, std::size_t alignment) {
    if (state_->memory.is_inherited()) [[unlikely]]
        throw Error(Errc::unsupported, "arena " + options_.name,
                    "it is the parent's: a forked child has none of its memory",
                    "make a context, or an arena, in the child");
    if (bytes > options_.max_bytes || alignment > kSmallPageBytes)
        throw Error(
            Errc::out_of_memory, "arena " + options_.name,
            fmt::format("{} bytes aligned to {} wanted, the arena may hold {} aligned to {}", bytes,
                        alignment, options_.max_bytes, kSmallPageBytes),
            fmt::format("raise max_bytes of [{}] in the configuration", options_.name));
    if (bytes >= kPageAligned) alignment = kSmallPageBytes;
    const std::uint64_t granules = granules_of(bytes);
    const std::uint64_t step = std::max<std::size_t>(1, alignment / kGranuleBytes);
    std::byte* const block = base_ + take(granules, step) * kGranuleBytes;
    poison::check(block, granules * kGranuleBytes, options_.name.c_str());
    poison::put_guard(block, bytes);
    return block;
}

void* Arena::allocate_part(std::size_t bytes, std::size_t alignment, bool& may_populate) {
    if (bytes <= options_.max_bytes && !state_->memory.is_inherited()) {
        const std::lock_guard lock(state_->mutex);
        const std::size_t step = bytes >= kPageAligned ? kSmallPageBytes : alignment;
        if (!state_->populate_part(granules_of(bytes),
                                   std::max<std::size_t>(1, step / kGranuleBytes), options_,
                                   may_populate))
            return nullptr;
    }
    return allocate(bytes, alignment);
}

std::uint64_t Arena::take(std::uint64_t granules, std::uint64_t step) {
    std::unique_lock lock(state_->mutex, std::defer_lock);
    if (ThreadCache* const cache = step == 1 ? state_->cache_for(granules, lock) : nullptr)
        if (const auto first = state_->take_cached(*cache, granules); first != GranuleHeap::kNone)
            return first;
    if (!lock) lock.lock();
    const std::uint64_t first = allocate_locked(granules, step);
    state_->bits.set(first, granules, state_->writers(lock));
    return first;
}

std::uint64_t Arena::allocate_locked(std::uint64_t granules, std::uint64_t step) {
    GranuleHeap& heap = state_->heap;
    std::uint64_t first = heap.allocate(granules, step);
    if (first == GranuleHeap::kNone && heap.is_merge_due() && heap.consolidate())
        first = heap.allocate(granules, step);
    if (first == GranuleHeap::kNone) first = grow_and_allocate(granules, step);
    state_->peak = std::max(state_->peak, heap.taken());
    return first;
}

std::uint64_t Arena::grow_and_allocate(std::uint64_t granules, std::uint64_t alignment) {
    GranuleHeap& heap = state_->heap;
    try {
        state_->grow_to(heap.populated_for(granules, alignment));
    } catch (const Error&) {  // the last resort, before the caller hears of it
        if (ThreadCache* const cache = state_->caches.mine()) cache->flush(heap);
        std::uint64_t first = heap.allocate(granules, alignment);
        if (first == GranuleHeap::kNone && heap.consolidate())
            first = heap.allocate(granules, alignment);
        if (first == GranuleHeap::kNone) throw;
        return first;
    }
    return heap.allocate(granules, alignment);
}

void Arena::do_deallocate(void* p, std::size_t bytes, std::size_t) {
    if (state_->memory.is_inherited()) [[unlikely]]
        return;
    const std::size_t offset = offset_of(p);
    const bool ours = offset % kGranuleBytes == 0 && offset < options_.max_bytes &&
                      bytes <= options_.max_bytes - offset;
    if (ours) {
        if (poison::kOn && all_live(offset / kGranuleBytes, granules_of(bytes)))
            poison::check_guard(p, bytes, options_.name.c_str());
        try {
            if (state_->release(offset / kGranuleBytes, granules_of(bytes))) return;
        } catch (const std::bad_alloc&) {  // the list of free blocks cannot grow: lose the block,
                                           // not the program
            return;
        }
    }
    // Going on would hand the same memory out twice.
    std::fprintf(stderr,
                 "verbatim: arena %s: %zu bytes at %p freed that are not live (freed twice, wrong "
                 "size, or not "
                 "from this arena)\n",
                 options_.name.c_str(), bytes, p);
    std::abort();
}

bool Arena::all_live(std::uint64_t first, std::uint64_t granules) const noexcept {
    return state_->bits.all(first, granules);
}

ArenaUsage Arena::usage() const {
    if (state_->memory.is_inherited()) return {.reserved_bytes = options_.max_bytes};
    const std::lock_guard lock(state_->mutex);
    const std::uint64_t cached = state_->caches.held();
    return {.allocated_bytes = (state_->heap.taken() - cached) * kGranuleBytes,
            .populated_bytes = state_->memory.populated_bytes(),
            .reserved_bytes = options_.max_bytes,
            .page_bytes = state_->memory.page_bytes(),
            .huge_bytes = state_->memory.huge_bytes(),
            .peak_bytes = state_->peak * kGranuleBytes,
            .cached_bytes = cached * kGranuleBytes,
            .thread_caches = state_->caches.size()};
}

std::size_t Arena::segment_count() const noexcept {
    if (state_->memory.is_inherited()) return 0;
    const std::lock_guard lock(state_->mutex);
    return state_->memory.mapped_bytes() / options_.segment_bytes;
}

Arena::Segment Arena::segment(std::size_t index) const {
    const std::lock_guard lock(state_->mutex);
    const std::size_t offset = index * options_.segment_bytes;
    if (offset >= state_->memory.mapped_bytes())
        throw Error(Errc::invalid_argument, "arena " + options_.name,
                    fmt::format("it has no segment {}", index),
                    "ask for segments below segment_count() only");
    return {base_ + offset, options_.segment_bytes, state_->memory.file_at(offset), offset};
}

}  // namespace verbatim
