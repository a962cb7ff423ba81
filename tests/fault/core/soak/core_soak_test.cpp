// The soak: two sides do random operations on several connections of one lane each, and a model
// says what must arrive. Here between two threads, which is what the thread sanitizer can see; with
// faults of the software NIC, interrupted system calls, and forks.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "soak_run.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace test::soak;
using softnic::test::Child;

TEST(Soak, of_two_threads_that_wait_in_all_ways) {
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        const Plan plan = plan_of(seed);
        run_threads(plan, config_of(plan, 0), config_of(plan, 1));
        if (HasFailure()) break;
    }
}

// Requests that are late, or sent again: nothing of it is seen.
TEST(Soak, with_a_fabric_that_is_slow_and_loses_packets) {
    const Plan plan = plan_of(21);
    Config listening = config_of(plan, 0), calling = config_of(plan, 1);
    listening.faults = "delay rate=0.01 seed=5 delay_us=300; drop rate=0.005 seed=6";
    calling.faults = "duplicate rate=0.02 seed=7; corrupt rate=0.005 seed=8";
    run_threads(plan, listening, calling);
}

// Queue pairs that fail: what comes is a prefix, and the next connection knows nothing of it.
TEST(Soak, with_connections_that_fail) {
    Plan plan = plan_of(31);
    plan.may_lose = true;
    Config listening = config_of(plan, 0), calling = config_of(plan, 1);
    listening.faults = "fail rate=0.0005 seed=5; delay rate=0.01 seed=7 delay_us=300";
    calling.faults = "disconnect rate=0.0005 seed=6";
    run_threads(plan, listening, calling);
}

// Interrupts system calls of all threads a thousand times a second, for as long as it lives.
class Interruptions {
  public:
    Interruptions() {
        struct sigaction action {};
        action.sa_handler = [](int) { ++g_count; };  // and SA_RESTART is not set
        sigaction(SIGALRM, &action, &before_);
        const itimerval every{{0, 1000}, {0, 1000}};
        setitimer(ITIMER_REAL, &every, nullptr);
    }
    ~Interruptions() {
        const itimerval never{};
        setitimer(ITIMER_REAL, &never, nullptr);
        sigaction(SIGALRM, &before_, nullptr);
    }
    Interruptions(const Interruptions&) = delete;
    Interruptions& operator=(const Interruptions&) = delete;
    static int count() { return g_count; }

  private:
    static inline std::atomic<int> g_count{0};
    struct sigaction before_ {};
};

TEST(Soak, with_system_calls_that_are_interrupted) {
    const Plan plan = plan_of(51);
    const Interruptions interruptions;
    run_threads(plan, config_of(plan, 0), config_of(plan, 1));
    EXPECT_GT(Interruptions::count(), 10);
}

// Forks children that live on for a while, as another thread of a program may.
class Forks {
  public:
    ~Forks() {
        stop_ = true;
        thread_.join();
        EXPECT_GT(count_, 3);
    }

  private:
    void run() {
        std::deque<std::unique_ptr<Child>> children;
        for (; !stop_; ++count_) {
            children.push_back(std::make_unique<Child>([](auto&) { return pause(); }));
            if (children.size() > 4) children.pop_front();
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }
    std::atomic<bool> stop_{false};
    int count_ = 0;
    std::thread thread_{[this] { run(); }};
};

// Ends of connections are seen although children have copies of all that was open.
TEST(Soak, with_forks_while_connections_are_busy) {
    Plan plan = plan_of(61);
    plan.may_lose = true;
    Config listening = config_of(plan, 0);
    listening.faults = "fail rate=0.0005 seed=5";
    const Forks forks;
    run_threads(plan, listening, config_of(plan, 1));
}

}  // namespace
}  // namespace verbatim
