// The library's own threads: counted apart from the program's, and brought to rest.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "host/own_threads.hpp"

namespace verbatim::softnic {
namespace {

using namespace std::chrono_literals;

// One that counts, and rests between two steps.
class Counter {
  public:
    Counter() { EXPECT_EQ(start_own_thread(thread_, entry, this, Faults::blocked), 0); }
    ~Counter() {
        stop_ = true;
        pthread_join(thread_, nullptr);
    }
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;

    std::uint64_t count() const { return count_.load(); }
    void never_rest(bool wanted) { restless_ = wanted; }

  private:
    static void* entry(void* self) {
        const OwnThread own;
        static_cast<Counter*>(self)->run();
        return nullptr;
    }
    void run() {
        while (!stop_) {
            ++count_;
            if (restless_) continue;
            const AtRest rest;
            usleep(20);
        }
    }
    std::atomic<std::uint64_t> count_{0};
    std::atomic<bool> stop_{false}, restless_{false};
    pthread_t thread_{};
};

bool moves(const Counter& counter) {
    const std::uint64_t before = counter.count();
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (counter.count() == before)
        if (std::chrono::steady_clock::now() > deadline) return false;
    return true;
}

TEST(OwnThreads, nothing_moves_in_a_standstill_and_all_goes_on_afterwards) {
    const Counter one, other;
    for (int round = 0; round < 50; ++round) {
        {
            const Standstill standstill(10s);
            ASSERT_TRUE(standstill.reached());
            const std::uint64_t before = one.count() + other.count();
            usleep(500);
            EXPECT_EQ(one.count() + other.count(), before);
        }
        EXPECT_TRUE(moves(one) && moves(other));
    }
}

TEST(OwnThreads, one_that_does_not_rest_is_waited_for_and_no_longer) {
    Counter counter;
    ASSERT_TRUE(moves(counter));
    counter.never_rest(true);
    {
        const Standstill waiting(10s);  // until it has heard
    }
    ASSERT_TRUE(moves(counter));
    const Standstill standstill(20ms);
    EXPECT_FALSE(standstill.reached());
    EXPECT_TRUE(moves(counter));
    counter.never_rest(false);
}

TEST(OwnThreads, there_is_one_standstill_at_a_time) {
    const Standstill first(10s), second(10ms);
    EXPECT_TRUE(first.reached());
    EXPECT_FALSE(second.reached());
}

// Sanitizers have threads, too.
TEST(OwnThreads, they_do_not_count_as_the_programs) {
    const auto alone = [] { return Standstill(10s).alone(); };
    if (!alone()) GTEST_SKIP() << "this build has a thread of its own";
    const Counter one, other;
    EXPECT_TRUE(alone());
    std::atomic<bool> stop{false};
    std::thread thread([&] { stop.wait(false); });
    EXPECT_FALSE(alone());
    stop = true;
    stop.notify_all();
    thread.join();
    // The kernel may show it for a moment still.
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!alone() && std::chrono::steady_clock::now() < deadline) continue;
    EXPECT_TRUE(alone());
}

TEST(OwnThreads, a_forked_child_has_none) {
    const Counter counter;
    ASSERT_TRUE(moves(counter));
    const pid_t child = fork();
    if (child == 0) {
        const Standstill standstill(10s);
        _exit(standstill.reached() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(moves(counter));
}

}  // namespace
}  // namespace verbatim::softnic
