// Completion events and shared receives through unmodified libibverbs. Nobody polls while it waits
// for an event: the engine's own thread does the work.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

struct Events : testing::Test {
    Events() {
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
    }
    static bool readable(const Side& side, int timeout_ms) {
        pollfd entry{side.channel->fd, POLLIN, 0};
        return ::poll(&entry, 1, timeout_ms) == 1;
    }
    static void take_event(Side& side) {
        ASSERT_TRUE(readable(side, 10000)) << "no event";
        ibv_cq* queue = nullptr;
        void* context = nullptr;
        ASSERT_EQ(ibv_get_cq_event(side.channel.get(), &queue, &context), 0);
        EXPECT_EQ(queue, side.completions.get());
        EXPECT_EQ(context, &side);
        ibv_ack_cq_events(queue, 1);
    }
    static void arm(Side& side, bool solicited = false) {
        ASSERT_EQ(ibv_req_notify_cq(side.completions.get(), solicited ? 1 : 0), 0);
    }

    Context context = open_device();
    Side one{context.get(), {.events = true}}, other{context.get(), {.events = true}};
};

TEST_F(Events, each_arming_brings_one) {
    for (int i = 0; i < 20; ++i) {
        arm(other), arm(one);
        other.receive(0, 64);
        one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
        take_event(other);
        take_event(one);
        EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
        EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    }
    EXPECT_FALSE(readable(one, 0));
    EXPECT_FALSE(readable(other, 0));
}

TEST_F(Events, a_completion_that_is_there_already_brings_one_when_the_queue_is_armed) {
    other.receive(0, 64);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_FALSE(readable(one, 20));
    arm(one);
    take_event(one);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
}

TEST_F(Events, only_solicited_completions_wake_who_asked_for_those) {
    other.receive(0, 64), other.receive(64, 64);
    arm(other, true);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);  // so it has arrived
    EXPECT_FALSE(readable(other, 20));
    one.request(IBV_WR_SEND, 0, 64).flags(IBV_SEND_SOLICITED).post(one.pair.get());
    take_event(other);
}

TEST_F(Events, an_event_that_nobody_reads_does_not_hold_up_destruction) {
    arm(other);
    other.receive(0, 64);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_TRUE(readable(other, 10000));
    other.pair.reset();
    other.completions.reset();
    EXPECT_FALSE(readable(other, 0));
}

void run_on(std::size_t core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

// This thread only runs when nobody else wants the core.
void hardly_run_on(std::size_t core) {
    run_on(core);
    constexpr sched_param kNone{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &kNone), 0);
}

void crowd(std::size_t core, std::chrono::milliseconds time) {
    run_on(core);
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) continue;
}

// perftest's latency tools take one completion for each event, and count wrongly if one comes for
// what they had found by themselves.
TEST_F(Events, who_waits_for_a_core_before_polling_gets_none_for_what_that_poll_finds) {
    constexpr auto kWait = std::chrono::milliseconds(100);
    const auto core = static_cast<std::size_t>(sched_getcpu());
    other.receive(0, 64);
    std::atomic<bool> armed{false};
    std::thread poller([&] {
        hardly_run_on(core);
        arm(other);
        armed.store(true);
        const auto end = std::chrono::steady_clock::now() + kWait;
        while (std::chrono::steady_clock::now() < end) continue;
        EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    });
    while (!armed.load()) std::this_thread::yield();
    std::thread neighbour([&] { crowd(core, kWait); });
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    poller.join(), neighbour.join();
    EXPECT_FALSE(readable(other, 20));
}

TEST_F(Events, who_does_something_else_after_arming_gets_its_event) {
    other.receive(0, 64);
    arm(other);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    bool came = false;
    while (!came && std::chrono::steady_clock::now() < end) came = readable(other, 0);
    EXPECT_TRUE(came);
}

// Of `other`, whose queue's events wait for three completions or four milliseconds.
struct Moderated : Events {
    using Clock = std::chrono::steady_clock;
    static constexpr auto kPeriod = std::chrono::microseconds(4095);
    static int moderate(Side& side, std::uint16_t count, std::uint16_t period) {
        ibv_modify_cq_attr attributes{IBV_CQ_ATTR_MODERATE, {count, period}};
        return ibv_modify_cq(side.completions.get(), &attributes);
    }
    // How long after the first of `messages` the event came.
    Clock::duration time_of(int messages) {
        arm(other);
        const auto start = Clock::now();
        for (int i = 0; i < messages; ++i) {
            other.receive(0, 64);
            one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
        }
        take_event(other);
        const auto time = Clock::now() - start;
        for (int i = 0; i < messages; ++i) {
            EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
            EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
        }
        EXPECT_FALSE(readable(other, 0)) << "one event for each arming";
        return time;
    }
};

TEST_F(Moderated, an_event_of_few_completions_waits_for_its_time) {
    ASSERT_EQ(moderate(other, 3, 4095), 0);
    for (int round = 0; round < 20; ++round) EXPECT_GE(time_of(1 + round % 2), kPeriod);
}

TEST_F(Moderated, an_event_of_enough_completions_does_not) {
    ASSERT_EQ(moderate(other, 3, 4095), 0);
    // On a busy machine some may come late for other reasons.
    auto shortest = Clock::duration::max();
    for (int round = 0; round < 100 && shortest >= kPeriod; ++round)
        shortest = std::min(shortest, time_of(3));
    EXPECT_LT(shortest, kPeriod);
}

TEST_F(Moderated, can_be_switched_off) {
    ASSERT_EQ(moderate(other, 3, 4095), 0);
    EXPECT_GE(time_of(1), kPeriod);
    ASSERT_EQ(moderate(other, 0, 0), 0);
    auto shortest = Clock::duration::max();
    for (int round = 0; round < 100 && shortest >= kPeriod; ++round)
        shortest = std::min(shortest, time_of(1));
    EXPECT_LT(shortest, kPeriod);
}

TEST_F(Moderated, what_the_device_cannot_do_is_refused) {
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &device), 0);
    EXPECT_EQ(device.cq_mod_caps.max_cq_count, 65535);
    EXPECT_EQ(device.cq_mod_caps.max_cq_period, 4095);
    EXPECT_EQ(moderate(other, 3, 4096), EINVAL);
    ibv_modify_cq_attr attributes{0, {1, 1}};
    EXPECT_EQ(ibv_modify_cq(other.completions.get(), &attributes), EINVAL);
}

TEST(SharedReceives, serve_several_queue_pairs) {
    const Context context = open_device();
    Side first(context.get()), second(context.get());
    Side server(context.get(), {.shared_receives = true, .completions = 256});
    Pair other_pair = std::move(server.pair);
    server.make_pair();
    connect(first.pair.get(), server.pair->qp_num);
    connect(server.pair.get(), first.pair->qp_num);
    connect(second.pair.get(), other_pair->qp_num);
    connect(other_pair.get(), second.pair->qp_num);
    for (std::uint64_t round = 0; round < 100; ++round) {
        server.receive(round % 30 * 64, 64, round);
        Side& sender = round % 2 == 0 ? first : second;
        sender.fill(0, 64, static_cast<int>(round));
        sender.request(IBV_WR_SEND, 0, 64).post(sender.pair.get());
        const ibv_wc arrived = server.poll();
        ASSERT_EQ(arrived.status, IBV_WC_SUCCESS);
        EXPECT_EQ(arrived.wr_id, round);
        EXPECT_EQ(arrived.qp_num, round % 2 == 0 ? server.pair->qp_num : other_pair->qp_num);
        EXPECT_EQ(std::memcmp(sender.memory.data(), server.memory.data() + round % 30 * 64, 64), 0);
        EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    }
}

}  // namespace
}  // namespace verbatim::interop
