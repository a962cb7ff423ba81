// Arenas of a parent in a forked child, while threads of the parent are inside of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/core/deadline.hpp>

#include "forked_exit.hpp"

namespace verbatim {
namespace {

ArenaOptions small_arena() {
    ArenaOptions options;
    options.segment_bytes = std::size_t{2} << 20;
    options.max_bytes = std::size_t{256} << 20;
    options.pages = PageChoice::base_4k;
    return options;
}

// Allocates until this thread has met another one in the arena, and so has a cache.
bool share(Arena& arena) {
    std::atomic<bool> has_met{false};
    std::thread other([&] {
        while (!has_met) (void)arena.usage();
    });
    const Deadline limit = Deadline::after(std::chrono::seconds(15));
    while (!has_met && !limit.passed()) {
        arena.deallocate(arena.allocate(64, 16), 64, 16);
        has_met = arena.usage().thread_caches != 0;
    }
    const bool result = has_met.exchange(true);
    other.join();
    return result;
}

// Threads that get a cache of the arena and end, again and again, until told.
class Passers {
  public:
    explicit Passers(Arena& arena) {
        for (int i = 0; i < 3; ++i)
            threads_.emplace_back([&] {
                while (!over_)
                    std::thread([&] {
                        for (int k = 0; k < 200; ++k)
                            arena.deallocate(arena.allocate(64, 16), 64, 16);
                    }).join();
            });
    }
    ~Passers() {
        over_ = true;
        for (std::thread& thread : threads_) thread.join();
    }
    Passers(const Passers&) = delete;
    Passers& operator=(const Passers&) = delete;

  private:
    std::atomic<bool> over_{false};
    std::vector<std::thread> threads_;
};

constexpr int kForks = 200;

TEST(ForkedArenas, child_waits_for_no_thread_that_joined_or_left_an_arena) {
    Arena arena(small_arena());
    ASSERT_TRUE(share(arena)) << "this thread has a cache, too";
    const Passers passers(arena);
    for (int i = 0; i < kForks; ++i)
        ASSERT_EQ(test::status_of_exit([] {
                      Arena own(small_arena());
                      return share(own) ? 0 : 1;
                  }),
                  0);
}

TEST(ForkedArenas, child_asks_and_ends_an_arena_that_threads_of_its_parent_change) {
    auto arena = std::make_unique<Arena>(small_arena());
    const Passers passers(*arena);
    for (int i = 0; i < kForks; ++i)
        ASSERT_EQ(softnic::test::status_in_child([&] {
                      const ArenaUsage usage = arena->usage();
                      if (usage.allocated_bytes != 0 || arena->segment_count() != 0) return 1;
                      arena.reset();
                      return 0;
                  }),
                  0);
}

}  // namespace
}  // namespace verbatim
