// Traps on pages of a memory file, with threads that store into them.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "progress/doorbell_traps.hpp"

namespace verbatim::uverbs {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kPage = 4096, kPages = 4;

struct DoorbellTrapsTest : testing::Test {
    DoorbellTrapsTest()
        : file(memfd_create("registers", MFD_CLOEXEC)),
          pages(ftruncate(file, kPages * kPage) == 0
                    ? static_cast<std::byte*>(mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE,
                                                   MAP_SHARED, file, 0))
                    : nullptr),
          traps(std::make_unique<DoorbellTraps>(DoorbellTraps::Hooks{
              [](void* self) noexcept {
                  auto& test = *static_cast<DoorbellTrapsTest*>(self);
                  test.trapped.fetch_add(1);
                  if (test.sets_again.load()) test.hooked->set();
              },
              [](void* self) noexcept {
                  return static_cast<DoorbellTrapsTest*>(self)->watches.fetch_add(1) < 3;
              },
              this})),
          hooked(traps.get()) {}
    ~DoorbellTrapsTest() override {
        traps.reset();
        munmap(pages, kPages * kPage);
        close(file);
    }
    void SetUp() override {
        traps->add(reinterpret_cast<std::uintptr_t>(pages), kPages * kPage);
        if (!traps->work()) GTEST_SKIP() << "doorbells cannot be trapped here";
    }
    void store(std::size_t page) {
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(pages + page * kPage)).store(1);
    }
    static bool eventually(const std::function<bool()>& holds) {
        const auto deadline = Steady::now() + 20s;
        while (!holds()) {
            if (Steady::now() > deadline) return false;
            std::this_thread::yield();
        }
        return true;
    }

    std::atomic<int> trapped{0}, watches{0};
    std::atomic<bool> sets_again{false};
    int file;
    std::byte* pages;
    std::unique_ptr<DoorbellTraps> traps;
    DoorbellTraps* hooked;  // the same, while it ends
};

TEST_F(DoorbellTrapsTest, a_store_is_told_of_and_goes_on) {
    ASSERT_TRUE(traps->set());
    EXPECT_TRUE(traps->are_set());
    store(1);
    EXPECT_TRUE(eventually([&] { return trapped.load() == 1; }));
    EXPECT_FALSE(traps->are_set());
}

TEST_F(DoorbellTrapsTest, lifted_traps_trap_nobody) {
    store(0);
    ASSERT_TRUE(traps->set());
    traps->lift();
    for (std::size_t page = 0; page < kPages; ++page) store(page);
    EXPECT_EQ(trapped.load(), 0);
}

TEST_F(DoorbellTrapsTest, no_store_hangs_while_traps_are_set_and_lifted_by_others) {
    sets_again.store(true);
    std::atomic<bool> done{false};
    std::thread other([&] {
        while (!done.load()) traps->set(), traps->lift();
    });
    std::vector<std::thread> storing;
    for (std::size_t page = 0; page < kPages; ++page)
        storing.emplace_back([this, page] {
            for (int i = 0; i < 300; ++i) store(page);
        });
    for (std::thread& thread : storing) thread.join();
    done.store(true);
    other.join();
}

TEST_F(DoorbellTrapsTest, an_end_under_stores_lets_all_go_on) {
    sets_again.store(true);
    std::atomic<bool> ended{false};
    std::vector<std::thread> storing;
    for (std::size_t page = 0; page < kPages; ++page)
        storing.emplace_back([&, page] {
            while (!ended.load()) store(page);
            for (int i = 0; i < 100; ++i) store(page);
        });
    traps->set();
    EXPECT_TRUE(eventually([&] { return trapped.load() > 10; }));
    // Nobody may set them afterwards.
    sets_again.store(false);
    traps.reset();
    ended.store(true);
    for (std::thread& thread : storing) thread.join();
}

TEST_F(DoorbellTrapsTest, pages_that_are_gone_are_forgotten_and_the_others_trapped) {
    ASSERT_TRUE(traps->set());
    ASSERT_EQ(munmap(pages + kPage, kPage), 0);
    traps->lift();
    ASSERT_TRUE(traps->set());
    store(3);
    EXPECT_TRUE(eventually([&] { return trapped.load() == 1; }));
}

TEST_F(DoorbellTrapsTest, pages_that_come_while_traps_are_set_are_trapped) {
    ASSERT_TRUE(traps->set());
    void* const more = mmap(nullptr, kPage, PROT_WRITE, MAP_SHARED, file, 0);
    traps->add(reinterpret_cast<std::uintptr_t>(more), kPage);
    std::atomic_ref(*static_cast<std::uint64_t*>(more)).store(1);
    EXPECT_TRUE(eventually([&] { return trapped.load() == 1; }));
    munmap(more, kPage);
}

TEST_F(DoorbellTrapsTest, a_watch_ends_when_nothing_is_left_to_watch) {
    traps->watch(), traps->watch();
    // Asked once more when it ends.
    EXPECT_TRUE(eventually([&] { return watches.load() == 5; }));
    traps->watch();
    EXPECT_TRUE(eventually([&] { return watches.load() == 7; }));
}

TEST_F(DoorbellTrapsTest, after_giving_up_nothing_is_trapped) {
    ASSERT_TRUE(traps->set());
    traps->forgo("the test says so");
    EXPECT_FALSE(traps->work());
    EXPECT_FALSE(traps->set());
    store(0);
    EXPECT_EQ(trapped.load(), 0);
}

}  // namespace
}  // namespace verbatim::uverbs
