// The registration cache: what is kept, what goes for others, and what memory is refused.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "core_foreign.hpp"
#include "foreign/copy_limit.hpp"

namespace verbatim::test {
namespace {

TEST(ForeignCache, counts_hits_and_misses) {
    Cached one;
    const Pages pages(4);
    EXPECT_FALSE(one.touch(pages));
    EXPECT_EQ(one.touch(pages), keeps());
    EXPECT_EQ(one.touch(pages), keeps());
    const RegistrationUsage usage = one.cache.usage();
    EXPECT_EQ(usage.hits, keeps() ? 2u : 0u);
    EXPECT_EQ(usage.misses, keeps() ? 1u : 3u);
    EXPECT_EQ(usage.on_demand, keeps() ? 0u : 3u);
    EXPECT_EQ(usage.bytes, keeps() ? 4 * kPage : 0u);
    EXPECT_EQ(usage.entries, keeps() ? 1u : 0u);
    EXPECT_EQ(usage.in_flight, 0u);
}

TEST(ForeignCache, serves_parts_of_what_it_keeps) {
    Cached one;
    const Pages pages(4);
    one.touch(pages);
    EXPECT_EQ(one.touch(pages.data() + 5000, 1000), keeps());
    EXPECT_EQ(one.touch(pages.page(3), kPage), keeps());
    EXPECT_EQ(one.touch(pages.page(3), kPage, Access::local_read), keeps());
    EXPECT_EQ(one.cache.usage().entries, keeps() ? 1u : 0u);
}

TEST(ForeignCache, larger_registration_replaces_the_smaller_ones) {
    Cached one;
    const Pages pages(4);
    one.touch(pages.page(1), 100);
    one.touch(pages.page(3), 100);
    EXPECT_FALSE(one.touch(pages));
    EXPECT_EQ(one.cache.usage().entries, keeps() ? 1u : 0u);
    EXPECT_EQ(one.touch(pages.page(1), 100), keeps());
}

TEST(ForeignCache, read_only_registration_does_not_serve_a_writer) {
    Cached one;
    const Pages pages(1);
    one.touch(pages.data(), kPage, Access::local_read);
    EXPECT_FALSE(one.touch(pages));
    EXPECT_EQ(one.touch(pages.data(), kPage, Access::local_read), keeps());
}

TEST(ForeignCache, without_watch_each_lease_registers_and_releases) {
    Cached one({.watch = false});
    const Pages pages(1);
    std::shared_ptr<const std::atomic<bool>> alive;
    {
        const Registered lease = one.cache.acquire(pages.data(), kPage);
        alive = lease.region()->alive();
        EXPECT_TRUE(is_alive(alive));
    }
    EXPECT_FALSE(is_alive(alive));
    EXPECT_FALSE(one.touch(pages));
    EXPECT_EQ(one.cache.usage().on_demand, 2u);
    EXPECT_EQ(one.cache.usage().bytes, 0u);
}

TEST(ForeignCache, oldest_registration_goes_first) {
    RegistrationOptions options = small_config().foreign;
    options.max_bytes = 3 * kPage;
    Cached one(options);
    const Pages pages(8);
    for (const std::size_t page : {0u, 2u, 4u, 0u, 6u}) one.touch(pages.page(page), kPage);
    EXPECT_EQ(one.cache.usage().evicted, keeps() ? 1u : 0u);
    EXPECT_EQ(one.touch(pages.page(0), kPage), keeps());
    EXPECT_EQ(one.touch(pages.page(4), kPage), keeps());
    EXPECT_EQ(one.touch(pages.page(6), kPage), keeps());
    EXPECT_FALSE(one.touch(pages.page(2), kPage)) << "it was used the longest time ago";
}

TEST(ForeignCache, what_is_in_flight_never_goes_for_others) {
    RegistrationOptions options = small_config().foreign;
    options.max_bytes = 4 * kPage;
    options.max_entries = 3;
    Cached one(options);
    const Pages pages(64);
    const Registered kept = one.cache.acquire(pages.data(), kPage);
    const auto alive = kept.region()->alive();
    for (std::size_t page = 2; page < 64; page += 2) one.touch(pages.page(page), kPage);
    EXPECT_TRUE(is_alive(alive));
    EXPECT_LE(one.cache.usage().entries, 3u);
    EXPECT_LE(one.cache.usage().bytes, 4 * kPage);
    EXPECT_EQ(one.cache.usage().evicted, keeps() ? 29u : 0u);
}

TEST(ForeignCache, says_how_much_is_in_flight_where_there_is_no_room) {
    RegistrationOptions options = small_config().foreign;
    options.max_bytes = 2 * kPage;
    options.max_entries = 4;
    Cached one(options);
    const Pages pages(8);
    Registered first = one.cache.acquire(pages.data(), 2 * kPage);
    try {
        (void)one.cache.acquire(pages.page(4), 1);
        FAIL() << "it was accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::out_of_memory);
        EXPECT_NE(std::string(error.what()).find("raise max_bytes"), std::string::npos);
    }
    first.release();
    EXPECT_FALSE(one.touch(pages.page(4), 1));
    EXPECT_EQ(error_code_of([&] { (void)one.cache.acquire(pages.data(), 3 * kPage); }),
              Errc::out_of_memory);
}

TEST(ForeignCache, clear_releases_what_is_not_in_flight) {
    Cached one;
    const Pages pages(8);
    one.touch(pages.page(4), kPage);
    const Registered kept = one.cache.acquire(pages.data(), kPage);
    one.cache.clear();
    EXPECT_EQ(one.cache.usage().entries, 1u);
    EXPECT_TRUE(is_alive(kept.region()->alive()));
}

TEST(ForeignCache, lease_outlives_the_cache) {
    Context context(small_config());
    const Pages pages(1);
    Registered lease;
    {
        RegistrationCache cache(context);
        lease = cache.acquire(pages.data(), kPage);
    }
    const auto alive = lease.region()->alive();
    EXPECT_TRUE(is_alive(alive));
    lease = {};
    EXPECT_FALSE(is_alive(alive));
}

TEST(ForeignCache, memory_that_is_only_read_is_refused_to_writers) {
    Cached one;
    const Pages pages(2);
    ASSERT_EQ(mprotect(pages.page(1), kPage, PROT_READ), 0);
    try {
        (void)one.cache.acquire(pages.data(), 2 * kPage);
        FAIL() << "it was accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("read-only"), std::string::npos) << error.what();
    }
    EXPECT_EQ(one.cache.usage().entries, 0u);
    const std::span words(reinterpret_cast<int*>(pages.data()), 2000);
    const Registered lease = one.cache.acquire(std::span<const int>(words));
    EXPECT_EQ(lease.local(std::span<const int>(words)).elements().size(), 2000u);
    EXPECT_TRUE(lease.local(words).elements().empty()) << "nobody may write there";
}

TEST(ForeignCache, memory_with_a_hole_is_refused) {
    Cached one;
    const Pages pages(3);
    munmap(pages.page(1), kPage);
    EXPECT_EQ(error_code_of([&] { (void)one.cache.acquire(pages.data(), 3 * kPage); }),
              Errc::invalid_argument);
    EXPECT_EQ(error_code_of([&] { (void)one.cache.acquire(pages.page(1), 1); }),
              Errc::invalid_argument);
    EXPECT_EQ(one.cache.usage().bytes, 0u);
    EXPECT_FALSE(one.touch(pages.page(2), kPage));
}

TEST(ForeignCache, odd_calls_are_refused) {
    Cached one;
    const Pages pages(1);
    const auto refused = [&](void* at, std::size_t bytes, Access access) {
        return error_code_of([&] { (void)one.cache.acquire(at, bytes, access); }) ==
               Errc::invalid_argument;
    };
    EXPECT_TRUE(refused(pages.data(), 0, Access::local_read));
    EXPECT_TRUE(refused(pages.data(), ~std::size_t{0}, Access::local_read));
    EXPECT_TRUE(refused(nullptr, 8, Access::local_read));
    EXPECT_TRUE(refused(reinterpret_cast<void*>(~std::uintptr_t{0} - 8), 8, Access::local_read));
    EXPECT_TRUE(refused(pages.data(), 8, Access::remote_write)) << "lend it, with an end";
    for (const RegistrationOptions& options :
         {RegistrationOptions{.max_bytes = 0}, RegistrationOptions{.max_entries = 0},
          RegistrationOptions{.max_entries = 100000}})
        EXPECT_EQ(error_code_of([&] { RegistrationCache(one.context, options); }),
                  Errc::config_error);
}

// Nobody tells of holes in files.
TEST(ForeignCache, shared_memory_is_registered_for_each_lease) {
    Cached one;
    const Pages shared(2, nullptr, MAP_SHARED);
    EXPECT_FALSE(one.touch(shared));
    EXPECT_FALSE(one.touch(shared));
    EXPECT_EQ(one.cache.usage().on_demand, 2u);
    EXPECT_EQ(one.cache.usage().bytes, 0u);
}

TEST(ForeignCache, memory_beyond_the_end_of_its_file_is_refused) {
    Cached one;
    const int file = memfd_create("short", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, kPage), 0);
    void* const at = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(at, MAP_FAILED);
    close(file);
    EXPECT_EQ(error_code_of([&] { (void)one.cache.acquire(at, 2 * kPage); }),
              Errc::invalid_argument);
    EXPECT_FALSE(one.touch(at, kPage));
    munmap(at, 2 * kPage);
}

TEST(ForeignCache, copy_limit_is_what_was_configured) {
    Cached one({.copy_below = 5000});
    EXPECT_EQ(one.cache.copy_below(), 5000u);
    EXPECT_TRUE(one.cache.copies(4999));
    EXPECT_FALSE(one.cache.copies(5000));
    EXPECT_EQ(one.cache.usage().misses, 0u) << "nothing was measured";
}

TEST(ForeignCache, copy_limit_is_measured_once) {
    Cached one;
    const std::size_t limit = one.cache.copy_below();
    EXPECT_GE(limit, kLeastCopyLimit);
    EXPECT_LE(limit, kMostCopyLimit);
    const RegistrationUsage usage = one.cache.usage();
    EXPECT_GT(usage.hits + usage.misses, 0u);
    EXPECT_EQ(one.cache.copy_below(), limit);
    EXPECT_EQ(one.cache.usage().hits, usage.hits);
    EXPECT_EQ(one.cache.usage().misses, usage.misses);
}

// A clock of one's own: registration takes as long as the test says.
TEST(ForeignCache, copy_limit_follows_the_cost_of_registration) {
    std::size_t largest = 0;
    const auto free_of_cost = [&](void*, std::size_t bytes) { largest = std::max(largest, bytes); };
    EXPECT_LE(measure_copy_limit(free_of_cost), 1u << 20);
    EXPECT_LT(largest, kMostCopyLimit);
    const auto dear = [](void* memory, std::size_t bytes) {
        // Ten times the work of a copy, and of each byte.
        for (int i = 0; i < 20; ++i) std::memset(memory, i, bytes);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    EXPECT_EQ(measure_copy_limit(dear), kMostCopyLimit);
}

TEST(ForeignCache, threads_share_what_is_kept) {
    Cached one;
    const Pages pages(64);
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread)
        threads.emplace_back([&, thread] {
            for (std::size_t i = 0; i < 500; ++i) {
                const std::size_t page = (i * 7 + thread) % 60;
                const Registered lease = one.cache.acquire(pages.page(page), 3 * kPage);
                ASSERT_TRUE(is_alive(lease.region()->alive()));
            }
        });
    for (std::thread& thread : threads) thread.join();
    const RegistrationUsage usage = one.cache.usage();
    EXPECT_EQ(usage.hits + usage.misses, 2000u);
    EXPECT_EQ(usage.in_flight, 0u);
    if (keeps()) {
        EXPECT_EQ(usage.misses, 60u + usage.evicted + usage.invalidated);
    }
}

}  // namespace
}  // namespace verbatim::test
