// Memory that the program unmaps, moves or empties: its registration is never used again.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "core_foreign.hpp"
#include "sanitized.hpp"

namespace verbatim::test {
namespace {

TEST(ForeignChanges, new_mapping_at_the_same_address_is_registered_anew) {
    Cached one;
    Pages pages(4);
    std::byte* at = pages.data();
    one.touch(pages);
    for (int i = 0; i < 100; ++i) {
        pages.unmap();
        pages = Pages(4, at);
        if (!pages) {  // another thread's mapping has taken the place
            pages = Pages(4);
            at = pages.data();
            one.touch(pages);
            continue;
        }
        ASSERT_FALSE(one.touch(pages)) << i;
        ASSERT_EQ(one.touch(pages), keeps());
    }
    EXPECT_EQ(one.cache.usage().invalidated, keeps() ? 100u : 0u);
}

TEST(ForeignChanges, mapping_put_over_another_is_registered_anew) {
    Cached one;
    const Pages pages(4);
    one.touch(pages);
    ASSERT_NE(mmap(pages.page(2), kPage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              MAP_FAILED);
    EXPECT_FALSE(one.touch(pages));
}

TEST(ForeignChanges, neighbours_of_a_change_stay_registered) {
    Cached one;
    const Pages pages(6);
    one.touch(pages.page(0), kPage);
    one.touch(pages.page(4), 2 * kPage);
    ASSERT_EQ(madvise(pages.page(1), 3 * kPage, MADV_DONTNEED), 0);
    EXPECT_EQ(one.touch(pages.page(0), kPage), keeps());
    EXPECT_EQ(one.touch(pages.page(4), 2 * kPage), keeps());
}

TEST(ForeignChanges, emptied_pages_are_registered_anew) {
    Cached one;
    const Pages pages(4);
    for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
        one.touch(pages);
        ASSERT_EQ(madvise(pages.page(3), kPage, advice), 0);
        EXPECT_FALSE(one.touch(pages)) << advice;
    }
}

TEST(ForeignChanges, moved_memory_is_registered_anew_at_both_places) {
    Cached one;
    Pages pages(4);
    Pages place(8);
    std::byte* const before = pages.data();
    one.touch(pages);
    one.touch(place);
    ASSERT_TRUE(pages.move(4, place.data()));
    EXPECT_FALSE(one.touch(pages)) << "the pages are others";
    const Pages again(4, before);
    ASSERT_TRUE(again);
    EXPECT_FALSE(one.touch(again));
    EXPECT_EQ(one.touch(pages), keeps());
    EXPECT_FALSE(one.touch(place));
    (void)pages.let_go();  // `place` unmaps them
}

// The old pages stay mapped, and are empty.
TEST(ForeignChanges, memory_that_moved_and_left_its_place_mapped_is_registered_anew) {
    Cached one;
    const Pages pages(4);
    one.touch(pages);
    void* const moved =
        mremap(pages.data(), 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
    ASSERT_NE(moved, MAP_FAILED);
    EXPECT_FALSE(one.touch(pages));
    EXPECT_FALSE(one.touch(moved, 4 * kPage));
    munmap(moved, 4 * kPage);
}

TEST(ForeignChanges, grown_memory_is_registered_as_a_whole) {
    Cached one;
    Pages pages(2);
    one.touch(pages);
    ASSERT_TRUE(pages.move(1000));
    pages.page(999)[0] = std::byte{1};
    EXPECT_FALSE(one.touch(pages));
    EXPECT_EQ(one.touch(pages), keeps());
    ASSERT_TRUE(pages.move(10));  // the rest is unmapped
    EXPECT_FALSE(one.touch(pages));
}

TEST(ForeignChanges, memory_in_flight_keeps_its_registration_and_serves_nobody_else) {
    Cached one;
    const Pages pages(2);
    Registered first = one.cache.acquire(pages.data(), kPage);
    const auto alive = first.region()->alive();
    ASSERT_EQ(madvise(pages.data(), kPage, MADV_DONTNEED), 0);
    Registered second = one.cache.acquire(pages.data(), kPage);
    EXPECT_NE(first.region(), second.region());
    EXPECT_TRUE(is_alive(alive));
    first.release();
    EXPECT_FALSE(is_alive(alive)) << "its memory is gone, so it is not kept";
    EXPECT_TRUE(is_alive(second.region()->alive()));
    second.release();
    EXPECT_EQ(one.touch(pages.data(), kPage), keeps());
}

TEST(ForeignChanges, every_cache_of_the_process_is_told) {
    Cached one, other;
    const Pages pages(1);
    one.touch(pages);
    other.touch(pages);
    ASSERT_EQ(madvise(pages.data(), kPage, MADV_DONTNEED), 0);
    EXPECT_FALSE(one.touch(pages));
    EXPECT_FALSE(other.touch(pages));
    one.cache.clear();  // and the other one is still told
    ASSERT_EQ(madvise(pages.data(), kPage, MADV_DONTNEED), 0);
    EXPECT_FALSE(other.touch(pages));
}

// Where the allocator gives memory back, which it does under its own lock.
TEST(ForeignChanges, freed_and_trimmed_memory_is_registered_anew) {
    if (kSanitized) GTEST_SKIP() << "the sanitizer's allocator does not trim";
    Cached one;
    constexpr std::size_t kBytes = std::size_t{100} << 10;  // below the size for which it maps
    for (int i = 0; i < 20; ++i) {
        std::vector<void*> blocks;
        for (int block = 0; block < 20; ++block) {
            blocks.push_back(malloc(kBytes));
            std::memset(blocks.back(), i, kBytes);
            one.touch(blocks.back(), kBytes);
        }
        const auto before = one.cache.usage();
        void* const middle = blocks[10];
        for (void* const block : blocks) free(block);
        malloc_trim(0);
        void* const again = malloc(kBytes);
        std::memset(again, i, kBytes);
        if (again == middle || again == blocks[0]) {
            EXPECT_FALSE(one.touch(again, kBytes));
        }
        free(again);
        if (keeps()) {
            EXPECT_GT(one.cache.usage().misses, 0u);
        }
        EXPECT_GE(one.cache.usage().invalidated, before.invalidated);
    }
    if (keeps()) {
        EXPECT_GT(one.cache.usage().invalidated, 20u);
    }
}

// The one who unmaps is held up until the watch has read of it, and the address is free meanwhile.
TEST(ForeignChanges, address_is_taken_by_another_thread_at_once) {
    Cached one;
    std::atomic<std::byte*> handed{nullptr};
    std::atomic<bool> stop{false};
    std::thread unmaps([&] {
        while (!stop) {
            std::byte* const at = handed.exchange(nullptr);
            if (at != nullptr)
                munmap(at, 4 * kPage);
            else
                std::this_thread::yield();
        }
    });
    Pages pages(4);
    int stale = 0;
    const int rounds = keeps() ? 3000 : 300;  // without a watch there is nothing to be late
    for (int i = 0; i < rounds; ++i) {
        one.touch(pages);
        std::byte* const at = pages.let_go();
        handed = at;
        while (!pages) pages = Pages(4, at);
        stale += one.touch(pages) ? 1 : 0;
    }
    stop = true;
    unmaps.join();
    EXPECT_EQ(stale, 0);
}

TEST(ForeignChanges, forked_child_goes_its_own_way) {
    Cached one;
    Pages pages(4);
    one.touch(pages);
    const Registered lease = one.cache.acquire(pages.data(), kPage);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(20);
        const bool refused = error_code_of([&] { (void)one.cache.acquire(pages.data(), 1); }) ==
                             Errc::invalid_argument;
        one.cache.clear();
        munmap(pages.data(), 4 * kPage);         // nobody reads of it here: it must not wait
        if (kSanitized) _exit(refused ? 0 : 1);  // where no thread may start after a fork
        const Pages own(1);
        Cached anew;
        anew.touch(own);
        const bool kept = anew.touch(own);
        _exit(refused && kept == keeps() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(one.touch(pages), keeps()) << "the child's memory is not this process's";
    ASSERT_EQ(madvise(pages.data(), kPage, MADV_DONTNEED), 0);
    EXPECT_FALSE(one.touch(pages));
}

// Random leases and changes of memory. The model: each page has a number that counts its changes,
// and each region is good as long as those of its pages are what they were.
class Model {
  public:
    Model()
        : one_([] {
              RegistrationOptions options = small_config().foreign;
              options.max_bytes = kMost;
              options.max_entries = 24;
              return options;
          }()),
          pages_(kPages) {}

    void step() {
        switch (pick(10)) {
            case 0:
                return change([&](void* at, std::size_t bytes) {
                    ASSERT_EQ(madvise(at, bytes, MADV_DONTNEED), 0);
                });
            case 1:
                return change([&](void* at, std::size_t bytes) {
                    munmap(at, bytes);
                    map(at, bytes);
                });
            case 2:
                return move();
            case 3:
            case 4:
            case 5:
                if (!leases_.empty()) leases_.erase(leases_.begin() + index(leases_.size()));
                return;
            default:
                return acquire();
        }
    }
    void check() const {
        const RegistrationUsage usage = one_.cache.usage();
        ASSERT_LE(usage.bytes, kMost);
        ASSERT_LE(usage.entries, 24u);
        ASSERT_EQ(usage.in_flight, leases_.size());
        for (const Registered& lease : leases_) ASSERT_TRUE(is_alive(lease.region()->alive()));
    }
    std::uint64_t hits() const { return one_.cache.usage().hits; }

  private:
    static constexpr std::size_t kPages = 64, kMost = 80 * kPage;
    using Numbers = std::vector<std::uint64_t>;

    std::size_t pick(std::size_t below) { return random_() % below; }
    std::ptrdiff_t index(std::size_t below) { return static_cast<std::ptrdiff_t>(pick(below)); }
    static void map(void* at, std::size_t bytes) {
        ASSERT_EQ(
            mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            at);
    }
    template <class Change>
    void change(Change apply) {
        const std::size_t first = pick(kPages), count = 1 + pick(std::min(kPages - first, 6ul));
        apply(pages_.page(first), count * kPage);
        for (std::size_t page = first; page < first + count; ++page) ++numbers_[page];
    }
    // Two pages change places, but for what they hold.
    void move() {
        const std::size_t from = pick(kPages), to = pick(kPages);
        if (from == to) return;
        ASSERT_EQ(
            mremap(pages_.page(from), kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, pages_.page(to)),
            pages_.page(to));
        map(pages_.page(from), kPage);
        ++numbers_[from], ++numbers_[to];
    }
    void acquire() {
        const std::size_t first = pick(kPages), count = 1 + pick(std::min(kPages - first, 4ul));
        const Access access = pick(3) == 0 ? Access::local_read : RegistrationCache::kLendable;
        const auto hits = one_.cache.usage().hits;
        Registered lease;
        const Errc error = error_code_of(
            [&] { lease = one_.cache.acquire(pages_.page(first), count * kPage, access); });
        if (error != Errc::ok) {
            ASSERT_EQ(error, Errc::out_of_memory);
            ASSERT_GT(leases_.size(), 3u);
            return leases_.clear();
        }
        const bool hit = one_.cache.usage().hits != hits;
        judge(*lease.region(), hit);
        leases_.push_back(std::move(lease));
    }
    void judge(const MemoryRegion& region, bool hit) {
        const auto first = static_cast<std::size_t>(region.address() - pages_.data()) / kPage;
        const Numbers now(
            numbers_.begin() + static_cast<std::ptrdiff_t>(first),
            numbers_.begin() + static_cast<std::ptrdiff_t>(first + region.bytes() / kPage));
        if (!hit) known_[&region] = now;
        ASSERT_EQ(known_[&region], now) << "a registration of memory that is gone";
    }

    Cached one_;
    Pages pages_;
    std::mt19937_64 random_{7};
    Numbers numbers_ = Numbers(kPages);
    std::vector<Registered> leases_;
    std::map<const MemoryRegion*, Numbers> known_;
};

TEST(ForeignChanges, random_leases_and_changes_agree_with_a_model) {
    Model model;
    const int steps = kSanitized ? 20000 : 100000;
    for (int i = 0; i < steps; ++i) {
        model.step();
        if (i % 16 == 0) model.check();
        if (::testing::Test::HasFatalFailure()) FAIL() << "step " << i;
    }
    if (keeps()) {
        EXPECT_GT(model.hits(), static_cast<std::uint64_t>(steps) / 20);
    }
}

}  // namespace
}  // namespace verbatim::test
