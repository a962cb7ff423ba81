// The arena's promises: adjacency, liveness, growth, reuse, limits.
#include <verbatim/core/arena.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "arena/sparse_blocks.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

constexpr std::size_t KiB = 1024, MiB = KiB * 1024;

ArenaOptions small_arena(std::size_t segment = 64 * KiB, std::size_t max = MiB) {
    return {
        .name = "test", .segment_bytes = segment, .max_bytes = max, .pages = PageChoice::base_4k};
}

std::byte* take(Arena& arena, std::size_t bytes, std::size_t alignment = 16) {
    return static_cast<std::byte*>(arena.allocate(bytes, alignment));
}

// What the file of a block holds.
std::size_t bytes_present(int file) {
    struct stat status {};
    fstat(file, &status);
    return static_cast<std::size_t>(status.st_blocks) * 512;
}

// True if `check` is in a forked child.
bool holds_in_child(const std::function<bool()>& check) {
    return softnic::test::Child([&](softnic::test::Wire&) { return check() ? 0 : 1; }).reap() == 0;
}

// A page of a child's own where its parent has pages of a file. Nothing where a sanitizer has
// mapped memory of its own there, which must stay as well.
class OtherMemory {
  public:
    explicit OtherMemory(std::byte* place) {
        void* const memory = mmap(place, 4096, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (memory != place) return;
        at_ = static_cast<std::byte*>(std::memset(memory, kByte, 4096));
    }
    bool is_unchanged() const { return at_ == nullptr || *at_ == std::byte{kByte}; }

  private:
    static constexpr int kByte = 9;
    const std::byte* at_ = nullptr;
};

TEST(SparseBlocks, take_pages_when_they_are_touched_and_give_them_back) {
    SparseBlocks blocks("test", {});
    const auto first = blocks.take(MiB), second = blocks.take(MiB);
    EXPECT_EQ(second.file, first.file);
    EXPECT_EQ(bytes_present(first.file), 0);
    first.at[5 * 4096] = second.at[0] = second.at[4096] = std::byte{1};
    EXPECT_EQ(bytes_present(first.file), 3 * 4096);
    blocks.give_back(second);
    EXPECT_EQ(bytes_present(first.file), 4096);
    const auto third = blocks.take(MiB);
    EXPECT_EQ(third.at, second.at);
    EXPECT_EQ(third.at[4096], std::byte{0});
}

TEST(SparseBlocks, of_many_sizes_need_few_files) {
    SparseBlocks blocks("test", {});
    std::set<int> files;
    for (int i = 0; i < 1000; ++i) files.insert(blocks.take(MiB + 4096).file);
    EXPECT_LE(files.size(), 8);
    const auto large = blocks.take(2048 * MiB);
    large.at[large.bytes - 1] = std::byte{1};
}

TEST(SparseBlocks, of_a_parent_stay_as_they_are_when_a_child_gives_them_back) {
    SparseBlocks blocks("test", {});
    const auto block = blocks.take(MiB);
    block.at[0] = std::byte{7};
    EXPECT_TRUE(holds_in_child([&] {
        const OtherMemory other(block.at);
        blocks.give_back(block);
        return other.is_unchanged();
    }));
    EXPECT_EQ(block.at[0], std::byte{7});
}

TEST(Arena, puts_consecutive_allocations_side_by_side) {
    Arena arena(small_arena());
    std::byte* a = take(arena, 16);
    std::byte* b = take(arena, 24);
    std::byte* c = take(arena, 1);
    EXPECT_EQ(a, arena.base());
    EXPECT_EQ(b, a + 16);
    EXPECT_EQ(c, b + 32);
    EXPECT_EQ(arena.usage().allocated_bytes, 64u);
}

TEST(Arena, keeps_alignment_up_to_a_page_and_starts_large_allocations_on_one) {
    Arena arena(small_arena());
    take(arena, 16);
    for (std::size_t alignment = 16; alignment <= 4096; alignment *= 2)
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(take(arena, 40, alignment)) % alignment, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(take(arena, 64 * KiB, 1)) % 4096, 0u);
    EXPECT_THROW(take(arena, 16, 8192), Error);
}

TEST(Arena, knows_which_granules_are_live) {
    Arena arena(small_arena());
    std::byte* a = take(arena, 48);
    EXPECT_TRUE(arena.is_allocated(a, 48));
    EXPECT_TRUE(arena.is_allocated(a + 47, 0));
    EXPECT_FALSE(arena.is_allocated(a, 49));
    EXPECT_FALSE(arena.is_allocated(a - 1, 1));
    EXPECT_FALSE(arena.is_allocated(nullptr, 8));
    EXPECT_FALSE(arena.is_allocated(a, ~std::size_t{0}));
    int local = 0;
    EXPECT_FALSE(arena.is_allocated(&local, sizeof local));
    std::byte* big = take(arena, 100 * KiB);  // many words of the bitmap
    EXPECT_TRUE(arena.is_allocated(big, 100 * KiB));
    EXPECT_FALSE(arena.is_allocated(big, 100 * KiB + 1));
    arena.deallocate(big + 50 * KiB, 16);
    EXPECT_FALSE(arena.is_allocated(big, 100 * KiB));
    EXPECT_TRUE(arena.is_allocated(big, 50 * KiB));
}

TEST(Arena, takes_back_the_tail_of_an_allocation) {
    Arena arena(small_arena());
    std::byte* a = take(arena, 4096);
    arena.deallocate(a + 1024, 3072);
    EXPECT_TRUE(arena.is_allocated(a, 1024));
    EXPECT_FALSE(arena.is_allocated(a + 1024, 1));
    EXPECT_EQ(take(arena, 64), a + 1024);
}

TEST(Arena, returns_objects_freed_in_order_in_that_order) {
    Arena arena(small_arena());
    take(arena, 16);
    std::vector<std::byte*> first;
    for (int i = 0; i < 100; ++i) first.push_back(take(arena, 32));
    take(arena, 16);
    for (std::byte* p : first) arena.deallocate(p, 32);
    for (std::byte* p : first) EXPECT_EQ(take(arena, 32), p);
}

TEST(Arena, starts_over_when_everything_was_freed) {
    Arena arena(small_arena());
    std::vector<std::byte*> all;
    for (int i = 0; i < 1000; ++i) all.push_back(take(arena, 48));
    std::shuffle(all.begin(), all.end(), std::mt19937(1));
    for (std::byte* p : all) arena.deallocate(p, 48);
    EXPECT_EQ(arena.usage().allocated_bytes, 0u);
    EXPECT_EQ(take(arena, 400 * 48), arena.base());
}

TEST(Arena, lets_an_allocation_span_segments_and_writes_reach_the_memory_file) {
    Arena arena(small_arena(4 * KiB));
    take(arena, 16);
    std::byte* a = take(arena, 20 * KiB);
    std::memset(a, 0x5a, 20 * KiB);
    ASSERT_EQ(arena.segment_count(), 6u);
    const Arena::Segment s = arena.segment(5);
    EXPECT_EQ(s.address, arena.base() + 20 * KiB);
    unsigned char byte = 0;
    ASSERT_EQ(pread(s.file, &byte, 1, static_cast<off_t>(s.file_offset)), 1);
    EXPECT_EQ(byte, 0x5a);
    EXPECT_THROW((void)arena.segment(6), Error);
}

TEST(Arena, seals_its_memory_file_against_shrinking) {
    Arena arena(small_arena());
    take(arena, 16);
    const int file = arena.segment(0).file;
    EXPECT_EQ(fcntl(file, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    EXPECT_NE(ftruncate(file, 0), 0);
}

TEST(Arena, refuses_what_exceeds_max_bytes_and_goes_on) {
    Arena arena(small_arena(64 * KiB, 128 * KiB));
    std::byte* a = take(arena, 100 * KiB);
    try {
        take(arena, 60 * KiB);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::out_of_memory);
        EXPECT_NE(error.remedy().find("max_bytes of [test]"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(take(arena, 20 * KiB));
    arena.deallocate(a, 100 * KiB);
    EXPECT_NO_THROW(take(arena, 100 * KiB));
}

TEST(Arena, merges_small_free_blocks_before_it_gives_up) {
    Arena arena(small_arena(64 * KiB, 64 * KiB));
    std::vector<std::byte*> all;
    for (int i = 0; i < 4096; ++i) all.push_back(take(arena, 16));
    for (std::size_t i = 0; i + 1 < all.size(); ++i) arena.deallocate(all[i], 16);
    EXPECT_NO_THROW(take(arena, 60 * KiB));
}

// Few bytes lie in small blocks, but they part the holes that larger ones need.
TEST(Arena, grows_no_further_than_a_small_multiple_of_what_was_ever_live) {
    for (const std::size_t alignment : {16UL, 64UL}) {
        Arena arena(small_arena(2 * MiB, 1024 * MiB));
        std::mt19937 random(1);
        std::vector<std::pair<std::byte*, std::size_t>> live;
        for (int i = 0; i < 30'000; ++i) {
            const std::size_t bytes =
                random() % 20 == 0 ? 16 * KiB + random() % MiB : 16 + random() % 8000;
            live.emplace_back(take(arena, bytes, alignment), bytes);
            if (live.size() <= 30) continue;
            std::swap(live[random() % live.size()], live.back());
            arena.deallocate(live.back().first, live.back().second, alignment);
            live.pop_back();
        }
        EXPECT_LT(arena.usage().populated_bytes, 4 * arena.usage().peak_bytes) << alignment;
    }
}

TEST(Arena, takes_freed_blocks_for_aligned_requests_of_their_size) {
    Arena arena(small_arena(64 * KiB, 64 * KiB));
    std::vector<std::byte*> all;
    for (int i = 0; i < 8; ++i) all.push_back(take(arena, 64, 64));
    for (std::size_t i = 0; i + 1 < all.size(); ++i) arena.deallocate(all[i], 64, 64);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) EXPECT_EQ(take(arena, 64, 64), all[i]);
}

TEST(Arena, reports_a_machine_without_enough_memory_instead_of_dying) {
    const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
    const std::size_t twice = std::bit_ceil(2 * 4096 * pages);
    Arena arena(small_arena(twice, twice));
    EXPECT_NO_THROW(take(arena, 16));  // a part of the segment is enough
    try {
        take(arena, twice / 4 * 3);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::out_of_memory);
        EXPECT_NE(error.cause().find("the machine or control group has"), std::string::npos)
            << error.what();
    }
    EXPECT_NO_THROW(take(arena, 16));
}

TEST(Arena, populates_parts_of_at_most_a_quarter_of_what_is_there_up_to_a_segment) {
    Arena arena(small_arena(2 * MiB, 16 * MiB));
    std::vector<std::size_t> steps;
    while (arena.usage().allocated_bytes < 16 * MiB) {
        const std::size_t before = arena.usage().populated_bytes;
        std::memset(take(arena, 4 * KiB), 1, 4 * KiB);
        const std::size_t step = arena.usage().populated_bytes - before;
        if (step != 0) steps.push_back(step);
    }
    std::vector<std::size_t> wanted(8, 64 * KiB);
    for (std::size_t part = 128 * KiB; part <= 2 * MiB; part *= 2)
        wanted.insert(wanted.end(), 4, part);
    EXPECT_EQ(steps, wanted);
    EXPECT_EQ(arena.segment_count(), 8u);
}

TEST(Arena, registers_a_segment_that_is_populated_in_part) {
    Arena arena(small_arena(MiB, 4 * MiB));
    take(arena, 16);
    ASSERT_EQ(arena.segment_count(), 1u);
    EXPECT_EQ(arena.segment(0).bytes, MiB);
    EXPECT_LT(arena.usage().populated_bytes, MiB);
}

TEST(Arena, populates_whole_segments_when_it_is_made) {
    ArenaOptions options = small_arena(MiB, 4 * MiB);
    options.initial_bytes = MiB + 1;
    EXPECT_EQ(Arena(options).usage().populated_bytes, 2 * MiB);
}

TEST(Arena, refuses_options_that_cannot_work) {
    for (ArenaOptions options :
         {small_arena(3000), small_arena(2048), small_arena(64 * KiB, 4 * KiB)}) {
        try {
            Arena arena(options);
            ADD_FAILURE() << options.segment_bytes;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::config_error);
        }
    }
    ArenaOptions node = small_arena();
    node.numa_node = 900;  // of which nothing is populated yet
    try {
        Arena arena(node);
        ADD_FAILURE() << "there is such a node";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error);
        EXPECT_NE(std::string(error.what()).find("cannot bind to NUMA node 900"), std::string::npos)
            << error.what();
    }
}

bool maps_the_memory_file() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find("verbatim:test") != std::string::npos) return true;
    return false;
}

TEST(Arena, is_not_there_in_a_forked_child) {
    Arena arena(small_arena());
    take(arena, 16);
    ASSERT_TRUE(maps_the_memory_file());
    EXPECT_TRUE(holds_in_child([] { return !maps_the_memory_file(); }));
}

TEST(Arena, of_a_parent_leaves_alone_what_a_child_has_at_its_addresses) {
    auto arena = std::make_unique<Arena>(small_arena());
    std::byte* const block = take(*arena, 16);
    EXPECT_TRUE(holds_in_child([&] {
        const OtherMemory other(arena->base());
        arena->deallocate(block, 16);
        bool is_refused = false;
        try {
            take(*arena, 16);
        } catch (const Error& error) {
            is_refused = error.code() == Errc::unsupported;
        }
        arena.reset();
        return is_refused && other.is_unchanged();
    }));
}

#ifndef NDEBUG
TEST(ArenaDeath, stops_where_freed_memory_was_written) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Arena arena(small_arena());
    take(arena, 16);
    std::byte* const block = take(arena, 64);
    arena.deallocate(block, 64);
    EXPECT_EQ(block[63], std::byte{0xdb});
    block[40] = std::byte{1};
    EXPECT_DEATH(take(arena, 64), "written after they were freed");
}

// In what the allocation leaves of its last granule.
TEST(ArenaDeath, stops_where_bytes_behind_an_allocation_were_written) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const std::size_t bytes : {1u, 15u, 17u, 100u, 5000u}) {
        Arena arena(small_arena());
        std::byte* const block = take(arena, bytes);
        std::byte* const neighbour = take(arena, 8);
        EXPECT_EQ(neighbour, block + (bytes + 15) / 16 * 16) << "no room between them";
        block[bytes - 1] = std::byte{1};
        block[bytes] = std::byte{1};
        EXPECT_DEATH(arena.deallocate(block, bytes), "behind their end") << bytes;
        arena.deallocate(neighbour, 8);
    }
}

TEST(ArenaDeath, stops_where_less_is_freed_than_was_taken) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Arena arena(small_arena());
    std::byte* const block = take(arena, 31);
    std::fill_n(block, 31, std::byte{7});
    EXPECT_DEATH(arena.deallocate(block, 20), "more bytes were taken");
}

TEST(Arena, takes_back_parts_of_guarded_allocations) {
    Arena arena(small_arena());
    std::byte* const block = take(arena, 1000);
    std::fill_n(block, 1000, std::byte{7});
    arena.deallocate(block + 512, 1000 - 512);
    arena.deallocate(block, 512);
    std::byte* const empty = take(arena, 0);
    arena.deallocate(empty, 0);
    EXPECT_EQ(arena.usage().allocated_bytes, 0u);
}
#endif

TEST(ArenaDeath, stops_at_a_double_free) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            Arena arena(small_arena());
            take(arena, 32);
            std::byte* a = take(arena, 32);
            arena.deallocate(a, 32);
            arena.deallocate(a, 32);
        },
        "freed twice");
}

// Random allocations and frees against a map of what must be live; every block carries a pattern.
TEST(Arena, agrees_with_a_model_under_random_use) {
    Arena arena(small_arena(16 * KiB, 4 * MiB));
    std::mt19937 random(7);
    struct Block {
        std::size_t bytes;
        unsigned char pattern;
    };
    std::map<std::byte*, Block> live;
    const auto check_and_free = [&](std::map<std::byte*, Block>::iterator it) {
        const auto [bytes, pattern] = it->second;
        for (std::size_t i = 0; i < bytes; i += 7)
            ASSERT_EQ(it->first[i], static_cast<std::byte>(pattern)) << "overlap";
        arena.deallocate(it->first, bytes);
        live.erase(it);
    };
    for (int step = 0; step < 60000; ++step) {
        if (random() % 100 < 52 || live.empty()) {
            const std::size_t bytes = random() % 50 == 0 ? random() % 100000 : 1 + random() % 300;
            const std::size_t alignment = random() % 8 == 0 ? std::size_t{16} << (random() % 9) : 8;
            std::byte* p = nullptr;
            try {
                p = take(arena, bytes, alignment);
            } catch (const Error&) {
                while (live.size() > 10) check_and_free(live.begin());
                continue;
            }
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
            ASSERT_TRUE(arena.is_allocated(p, bytes));
            const auto pattern = static_cast<unsigned char>(random());
            std::memset(p, pattern, bytes);
            ASSERT_TRUE(live.emplace(p, Block{bytes, pattern}).second);
        } else {
            auto it = live.lower_bound(arena.base() + random() % (4 * MiB));
            check_and_free(it == live.end() ? live.begin() : it);
        }
        if (HasFatalFailure()) return;
    }
    std::size_t expected = 0;
    for (const auto& [p, block] : live)
        expected += (std::max<std::size_t>(block.bytes, 1) + 15) / 16 * 16;
    EXPECT_EQ(arena.usage().allocated_bytes, expected);
}

TEST(Arena, serves_threads_at_the_same_time) {
    Arena arena(small_arena(64 * KiB, 16 * MiB));
    const auto work = [&arena](unsigned char mark) {
        std::vector<std::byte*> mine;
        for (int i = 0; i < 3000; ++i) {
            mine.push_back(take(arena, 40));
            std::memset(mine.back(), mark, 40);
            if (i % 3 == 0) {
                EXPECT_EQ(*mine.front(), static_cast<std::byte>(mark));
                EXPECT_TRUE(arena.is_allocated(mine.front(), 40));
                arena.deallocate(mine.front(), 40);
                mine.erase(mine.begin());
            }
        }
        for (std::byte* p : mine) arena.deallocate(p, 40);
    };
    std::thread other(work, static_cast<unsigned char>(1));
    work(2);
    other.join();
    EXPECT_EQ(arena.usage().allocated_bytes, 0u);
}

// This thread meets another one in the arena, and so has a cache of it afterwards.
void get_cache(Arena& arena) {
    const std::size_t before = arena.usage().thread_caches;
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) (void)arena.usage();
    });
    while (arena.usage().thread_caches == before) arena.deallocate(take(arena, 16), 16);
    stop = true;
    other.join();
}

TEST(ArenaThreads, that_meet_get_caches_which_go_with_them) {
    Arena arena(small_arena(64 * KiB, 16 * MiB));
    take(arena, 16);
    EXPECT_EQ(arena.usage().thread_caches, 0u) << "one thread needs none";
    std::thread([&] {
        get_cache(arena);
        EXPECT_EQ(arena.usage().thread_caches, 1u);
        arena.deallocate(take(arena, 16), 16);
        EXPECT_NE(arena.usage().cached_bytes, 0u);
        EXPECT_EQ(arena.usage().allocated_bytes, 16u);
    }).join();
    const ArenaUsage usage = arena.usage();
    EXPECT_EQ(usage.thread_caches, 0u) << "the thread has ended";
    EXPECT_EQ(usage.cached_bytes, 0u);
    EXPECT_EQ(usage.allocated_bytes, 16u);
    EXPECT_GE(usage.peak_bytes, 32u);
}

TEST(ArenaThreads, have_neighbours_of_their_own) {
    Arena arena(small_arena(64 * KiB, 16 * MiB));
    get_cache(arena);
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) arena.deallocate(take(arena, 100), 100);
    });
    std::vector<std::byte*> mine;
    int neighbours = 0;
    for (int i = 0; i < 20000; ++i) mine.push_back(take(arena, 48));
    for (std::size_t i = 1; i < mine.size(); ++i) neighbours += mine[i] == mine[i - 1] + 48;
    for (std::byte* p : mine) arena.deallocate(p, 48);
    stop = true;
    busy.join();
    EXPECT_GT(neighbours, 15000);
}

// Blocks are freed by another thread than the one that took them.
TEST(ArenaThreads, may_free_what_others_took) {
    Arena arena(small_arena(64 * KiB, 16 * MiB));
    constexpr std::size_t kBlocks = 100'000, kRoom = 1024;
    std::vector<std::atomic<std::byte*>> handed(kRoom);
    std::thread taker([&] {
        for (std::size_t i = 0; i < kBlocks; ++i) {
            std::byte* const block = take(arena, 16 + i % 500);
            std::memset(block, static_cast<int>(i), 16 + i % 500);
            while (handed[i % kRoom].load() != nullptr) std::this_thread::yield();
            handed[i % kRoom] = block;
        }
    });
    for (std::size_t i = 0; i < kBlocks; ++i) {
        std::byte* block = nullptr;
        while ((block = handed[i % kRoom].exchange(nullptr)) == nullptr) std::this_thread::yield();
        ASSERT_EQ(block[15 + i % 500], static_cast<std::byte>(i));
        arena.deallocate(block, 16 + i % 500);
    }
    taker.join();
    const ArenaUsage usage = arena.usage();
    EXPECT_EQ(usage.allocated_bytes, 0u);
    EXPECT_LT(usage.populated_bytes, 2 * MiB) << "what was freed is used again";
}

TEST(ArenaThreads, may_outlive_the_arena) {
    std::atomic<bool> has_cache{false}, gone{false};
    auto arena = std::make_unique<Arena>(small_arena());
    std::thread other([&] {
        get_cache(*arena);
        has_cache = true;
        while (!gone) std::this_thread::yield();
        Arena next(small_arena());
        get_cache(next);  // that of the other arena is no more
    });
    while (!has_cache) std::this_thread::yield();
    arena.reset();
    gone = true;
    other.join();
}

// The last bytes of an arena lie in this thread's cache.
TEST(ArenaThreads, get_back_what_their_caches_hold_before_they_are_refused) {
    Arena arena(small_arena(64 * KiB, 64 * KiB));
    get_cache(arena);
    arena.deallocate(take(arena, 16), 16);
    ASSERT_NE(arena.usage().cached_bytes, 0u);
    std::byte* const most = take(arena, 60 * KiB);
    arena.deallocate(most, 60 * KiB);
}

}  // namespace
}  // namespace verbatim
